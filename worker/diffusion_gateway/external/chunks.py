"""From the chunks of a streamed answer to events: pure."""

from typing import Any, Literal

from diffusion_worker.wire import BlockEvent, FinishEvent, GenerateRequest, Likelihood, TokenLikelihood
from pydantic import BaseModel, ConfigDict

_LOWEST_LOGPROB = -9999.0


class _Part(BaseModel):
    model_config = ConfigDict(extra="ignore", frozen=True)


class _Usage(_Part):
    prompt_tokens: int = 0
    completion_tokens: int = 0


class _Delta(_Part):
    content: str | None = None
    # What a model thinks before it answers. The answer is not in it, but whoever waits sees that it works.
    reasoning_content: str | None = None
    reasoning: str | None = None


class _Choice(_Part):
    delta: _Delta = _Delta()
    text: str | None = None
    finish_reason: str | None = None
    logprobs: dict[str, Any] | None = None


class Chunk(_Part):
    """One of a stream, of a chat or not."""

    choices: list[_Choice] = []
    usage: _Usage | None = None
    error: dict[str, Any] | None = None


class Answer:
    """Follows the chunks of one answer."""

    def __init__(self, request: GenerateRequest) -> None:
        self._seed = request.seed or 0
        self._blocks = 0
        self._pieces = 0
        """With text; what counts as tokens where the server does not say how many there were."""
        self._usage: _Usage | None = None
        self._reason: Literal["stop", "length"] | None = None

    def read(self, chunk: Chunk) -> BlockEvent | None:
        """The text of a chunk, if it has any."""
        self._usage = chunk.usage or self._usage
        if not chunk.choices:
            return None
        choice = chunk.choices[0]
        if choice.finish_reason:
            # Whatever else a server stops for, there is no more.
            self._reason = "length" if choice.finish_reason == "length" else "stop"
        text = choice.delta.content or choice.text or ""
        logprobs = token_likelihoods(choice.logprobs) if choice.logprobs else None
        thinks = choice.delta.reasoning_content or choice.delta.reasoning
        if not (text or logprobs or thinks):
            return None
        index, self._blocks = self._blocks, self._blocks + 1
        self._pieces += bool(text)
        return BlockEvent(
            index=index,
            text=text,
            tokens=len(logprobs) if logprobs else int(bool(text)),
            steps=1,
            logprobs=logprobs or None,
        )

    def end(self) -> FinishEvent | None:
        """The end, once the stream has come to its own. None: it broke off before the answer was complete."""
        if self._reason is None:
            return None
        usage = self._usage or _Usage(completion_tokens=self._pieces)
        return FinishEvent(
            reason=self._reason,
            prompt_tokens=usage.prompt_tokens,
            completion_tokens=usage.completion_tokens,
            steps=usage.completion_tokens,
            blocks=self._blocks,
            seed=self._seed,
            queue_seconds=0.0,
        )


def token_likelihoods(logprobs: dict[str, Any]) -> list[TokenLikelihood]:
    """Log-probabilities of tokens, out of either of the two forms that OpenAI's API has for them.

    Raises:
        KeyError, TypeError, ValueError: it is neither.
    """
    if "content" in logprobs:
        return [
            TokenLikelihood(
                utf8=_utf8(token), logprob=_finite(token["logprob"]), top=[_chat(top) for top in token["top_logprobs"]]
            )
            for token in logprobs["content"] or ()
        ]
    tokens, values = logprobs["tokens"], logprobs["token_logprobs"]
    tops = logprobs.get("top_logprobs") or [None] * len(tokens)
    return [
        TokenLikelihood(utf8=_named(token), logprob=_finite(value), top=_ranked(top))
        for token, value, top in zip(tokens, values, tops, strict=True)
    ]


def _chat(token: dict[str, Any]) -> Likelihood:
    return Likelihood(utf8=_utf8(token), logprob=_finite(token["logprob"]))


def _ranked(top: dict[str, float] | None) -> list[Likelihood]:
    by_rank = sorted((top or {}).items(), key=lambda item: -item[1])
    return [Likelihood(utf8=_named(token), logprob=_finite(value)) for token, value in by_rank]


def _utf8(token: dict[str, Any]) -> list[int]:
    given = token.get("bytes")
    return list(token["token"].encode()) if given is None else list(given)


def _named(token: str) -> list[int]:
    """`bytes:\\xe2\\x80` stands for half a character."""
    if token.startswith("bytes:\\x"):
        return list(bytes.fromhex(token.removeprefix("bytes:").replace("\\x", "")))
    return list(token.encode())


def _finite(logprob: float | None) -> float:
    """JSON has no infinity; servers write null, or a number that is no likelihood."""
    return _LOWEST_LOGPROB if logprob is None else max(float(logprob), _LOWEST_LOGPROB)
