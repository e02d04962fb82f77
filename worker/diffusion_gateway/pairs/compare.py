"""One comparison: AR answers the same prompt at the same length, then scores both texts."""

import math
from dataclasses import dataclass

from diffusion_worker.wire import Degeneration, GenerateRequest, ScoreEvent, ScoreRequest

from ..openai.errors import ApiError
from ..reasons import WorkerError
from .ar_side import ArSide
from .cutting import cut_alike
from .drops import Drop, DroppedError
from .sample import Sample

MIN_TOKENS = 16
"""Of each text as it is compared. The mean over a few tokens is mostly chance: without them half as many pairs tell as much."""


@dataclass(frozen=True)
class Side:
    """One of the two answers."""

    score: ScoreEvent
    """Of the text that was compared, which may be cut."""
    tokens: int
    """Of the answer, uncut."""
    degeneration: Degeneration | None
    """Of the answer, uncut. None: it is too short, or was not read to its end."""

    @property
    def mean_nll(self) -> float:
        """Nats per token."""
        return self.score.nll / self.score.tokens


@dataclass(frozen=True)
class Pair:
    """Both answers to one prompt."""

    diffusion: Side
    ar: Side

    @property
    def difference(self) -> float:
        """Of the mean negative log-likelihoods per token (nats), diffusion minus AR."""
        return self.diffusion.mean_nll - self.ar.mean_nll


async def compare(sample: Sample, ar: ArSide) -> Pair:
    """Make the pair.

    Raises:
        DroppedError: there is none: a side is too short, or AR could not answer or score.
    """
    request = sample.drawn.request
    if not sample.text.strip():
        raise DroppedError(Drop.EMPTY_ANSWER)
    try:
        answer = await ar.answer(background(request, max_tokens=sample.tokens))
        if not answer.text.strip():
            raise DroppedError(Drop.EMPTY_ANSWER)
        texts = cut_alike(sample.text, answer.text)
        scores = [_checked(await ar.score(_about(text, request, number))) for number, text in enumerate(texts)]
    except WorkerError as error:
        raise DroppedError(error.reason) from error
    except ApiError as error:
        raise DroppedError(Drop.REFUSED) from error
    if min(score.tokens for score in scores) < MIN_TOKENS:
        raise DroppedError(Drop.TOO_SHORT)
    finish = answer.finish
    return Pair(
        diffusion=Side(scores[0], sample.tokens, sample.degeneration),
        ar=Side(scores[1], finish.completion_tokens, finish.degeneration),
    )


def background(request: GenerateRequest, *, max_tokens: int) -> GenerateRequest:
    """The same request as one for AR that gives way to all others: as long as the answer that it is compared with."""
    return request.model_copy(
        update={
            "request_id": f"{request.request_id}.pair",
            "max_tokens": max(1, max_tokens),
            "background": True,
            "drafts": False,
        }
    )


def _about(text: str, request: GenerateRequest, number: int) -> ScoreRequest:
    return ScoreRequest(
        request_id=f"{request.request_id}.score{number}",
        prompt=request.prompt,
        prompt_token_ids=request.prompt_token_ids,
        messages=request.messages,
        completion=text,
    )


def _checked(score: ScoreEvent) -> ScoreEvent:
    if not math.isfinite(score.nll):
        raise DroppedError(Drop.NOT_FINITE)
    return score
