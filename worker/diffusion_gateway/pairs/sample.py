"""Which answers are compared, and what is kept of them until then."""

from collections.abc import Callable
from dataclasses import dataclass

from diffusion_operator.api.status import ArmKind, RouteArm
from diffusion_worker.config import SamplerSettings
from diffusion_worker.wire import BlockEvent, Degeneration, DraftEvent, FinishEvent, GenerateRequest

from ..question import Question
from ..routes import Model

MAX_CHARACTERS = 64 * 2**10
"""Of prompt and answer together; larger samples are dropped. A character takes at most 4 bytes."""
_CHARACTERS_PER_TOKEN_ID = 10  # what an int and its place in a list take


def is_comparable(question: Question, arm: RouteArm, *, is_first_choice: bool) -> bool:
    """Whether AR could give the same kind of answer to the same request, so that the difference is the model's.

    Not compared: answers that came because another arm failed or was overruled, forced arms (those who debug are no sample of the
    users), several choices at once, and requests with sampler settings of their own (those are the client's, not the revision's).
    """
    if arm.kind != ArmKind.DIFFUSION or not is_first_choice or question.forced is not None:
        return False
    return len(question.requests) == 1 and question.requests[0].sampler == SamplerSettings()


@dataclass(frozen=True)
class Sample:
    """A diffusion answer that AR is to answer too. In memory only, and in no log."""

    drawn: "Drawn"
    text: str
    tokens: int
    degeneration: Degeneration | None

    @property
    def is_too_large(self) -> bool:
        """Larger than what is kept of one."""
        return len(self.text) + prompt_size(self.drawn.request) > MAX_CHARACTERS


@dataclass(frozen=True)
class Drawn:
    """A request whose answer is to be compared."""

    model: Model
    arm: RouteArm
    ar: RouteArm
    request: GenerateRequest


def prompt_size(request: GenerateRequest) -> int:
    """Characters, or as many as take the memory of its token ids."""
    if request.messages is not None:
        return sum(len(message.content) for message in request.messages)
    if request.prompt_token_ids is not None:
        return _CHARACTERS_PER_TOKEN_ID * len(request.prompt_token_ids)
    return len(request.prompt or "")


class Recording:
    """Collects the text of a row while it is read, and hands it over at the end. A row that nobody reads to its end is no sample."""

    def __init__(self, drawn: Drawn, done: Callable[[Sample], None]) -> None:
        self._drawn = drawn
        self._done = done
        self._text = ""
        self._tokens = 0
        self._is_handed_over = False

    def see(self, event: BlockEvent | DraftEvent | FinishEvent) -> None:
        """An event of the row. Drafts are no text yet."""
        match event:
            case BlockEvent() if len(self._text) <= MAX_CHARACTERS:
                self._text += event.text
                self._tokens += event.tokens
            case FinishEvent():
                self._hand_over(event.degeneration)

    def refuse(self) -> None:
        """What was read so far is not sent, and nobody reads on: then that is the sample."""
        if not self._is_handed_over:
            self._hand_over(None)

    def _hand_over(self, degeneration: Degeneration | None) -> None:
        self._is_handed_over = True
        self._done(Sample(self._drawn, self._text, self._tokens, degeneration))
