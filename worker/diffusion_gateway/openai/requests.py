"""What clients send, checked. Everything that would change the answer is honoured or refused by name, never ignored."""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Annotated, TypeVar

import pydantic_core
from diffusion_worker.config import SamplerSettings
from diffusion_worker.wire import MAX_LOGPROBS, GenerateRequest, Message, Penalty
from pydantic import BaseModel, ConfigDict, Field, PlainValidator, ValidationError

from ..workload import Workload
from .errors import ApiError, invalid_parameter
from .prompts import Prompt, read_messages, read_prompts, read_stop
from .sampling import read_logit_bias, read_sampler, read_workload, seed_of_choice
from .unsupported import without_unsupported
from .validation import first_fault

B = TypeVar("B", bound="_Body")
MAX_CHOICES = 8
MAX_ROWS = 32
"""Choices of all prompts of one request."""
TokenLimit = Annotated[int | None, Field(ge=1, lt=2**31)]


class StreamOptions(BaseModel):
    """`stream_options`. Unknown options only shape the stream, so they are dropped."""

    model_config = ConfigDict(extra="ignore", frozen=True, strict=True)

    include_usage: bool | None = None


class _Body(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True, strict=True)

    model: str = Field(min_length=1, max_length=512)
    max_tokens: TokenLimit = None
    temperature: float | None = Field(default=None, ge=0, le=2)
    top_p: float | None = Field(default=None, gt=0, le=1)
    seed: int | None = Field(default=None, ge=0, lt=2**63)
    stop: Annotated[tuple[str, ...], PlainValidator(read_stop)] = ()
    n: int | None = Field(default=None, ge=1, le=MAX_CHOICES)
    presence_penalty: Penalty | None = None
    frequency_penalty: Penalty | None = None
    logit_bias: Annotated[Mapping[int, float], PlainValidator(read_logit_bias)] = Field(default_factory=dict)
    sampler: Annotated[SamplerSettings, PlainValidator(read_sampler)] = SamplerSettings()
    stream: bool | None = None
    stream_options: StreamOptions | None = None
    drafts: bool | None = None
    user: str | None = None
    workload: Annotated[Workload | None, PlainValidator(read_workload)] = None


class CompletionBody(_Body):
    """Body of POST /v1/completions."""

    prompt: Annotated[tuple[Prompt, ...], PlainValidator(read_prompts)]
    logprobs: int | None = Field(default=None, ge=0, le=MAX_LOGPROBS)


class ChatBody(_Body):
    """Body of POST /v1/chat/completions."""

    messages: Annotated[tuple[Message, ...], PlainValidator(read_messages)]
    max_completion_tokens: TokenLimit = None
    logprobs: bool | None = None
    top_logprobs: int | None = Field(default=None, ge=0, le=MAX_LOGPROBS)


@dataclass(frozen=True)
class ChatOrCompletion:
    """A request that passed all checks which need no knowledge of the model."""

    model: str
    chat: bool
    stream: bool
    include_usage: bool
    drafts: bool
    """Show the canvas in work between the blocks of a stream."""
    max_tokens: int | None
    temperature: float
    top_p: float
    seed: int | None
    stop: tuple[str, ...]
    n: int
    """Choices of each prompt."""
    presence_penalty: float
    frequency_penalty: float
    logit_bias: Mapping[int, float]
    logprobs: int | None
    """Alternatives per token. None: no log-probabilities."""
    sampler: SamplerSettings
    prompts: tuple[Prompt, ...]
    """Empty for chats."""
    messages: tuple[Message, ...] | None
    """None for completions."""
    user: str | None
    """Who asks, in the client's own terms."""
    workload: Workload | None
    """What for, as the client says."""

    def to_wire(self, *, request_id: str, seed: int) -> tuple[GenerateRequest, ...]:
        """The requests for workers: of each prompt in turn, one per choice."""
        prompts: tuple[Prompt | None, ...] = self.prompts or (None,)
        rows = [
            (prompt, index)
            for prompt, first in zip(prompts, _first_choices(prompts, n=self.n), strict=True)
            for index in range(first, first + self.n)
        ]
        return tuple(
            self._row(
                prompt,
                request_id=request_id if len(rows) == 1 else f"{request_id}.{number}",
                seed=seed_of_choice(seed, choice),
            )
            for number, (prompt, choice) in enumerate(rows)
        )

    def _row(self, prompt: Prompt | None, *, request_id: str, seed: int) -> GenerateRequest:
        return GenerateRequest(
            request_id=request_id,
            prompt=prompt if isinstance(prompt, str) else None,
            prompt_token_ids=list(prompt) if isinstance(prompt, tuple) else None,
            messages=list(self.messages) if self.messages is not None else None,
            max_tokens=self.max_tokens,
            temperature=self.temperature,
            top_p=self.top_p,
            seed=seed,
            stop=list(self.stop),
            presence_penalty=self.presence_penalty,
            frequency_penalty=self.frequency_penalty,
            logit_bias=dict(self.logit_bias),
            logprobs=self.logprobs,
            sampler=self.sampler,
            drafts=self.drafts,
        )


def _first_choices(prompts: Sequence[Prompt | None], *, n: int) -> list[int]:
    """Where the choices of each prompt begin to count: at 0, and where a prompt comes again, behind those it has already.

    So a prompt's answer is the one that it would get alone, and asking the same several times is as asking for more choices.
    """
    seen: Counter[Prompt | None] = Counter()
    first = []
    for prompt in prompts:
        first.append(seen[prompt] * n)
        seen[prompt] += 1
    return first


def parse_completion(raw: bytes) -> ChatOrCompletion:
    """Read the body of POST /v1/completions. Raises `ApiError` (400)."""
    body = _validated(CompletionBody, raw)
    return _common(
        body, chat=False, max_tokens=body.max_tokens, logprobs=body.logprobs, prompts=body.prompt, messages=None
    )


def parse_chat(raw: bytes) -> ChatOrCompletion:
    """Read the body of POST /v1/chat/completions. Raises `ApiError` (400)."""
    body = _validated(ChatBody, raw)
    limits = {limit for limit in (body.max_tokens, body.max_completion_tokens) if limit is not None}
    if len(limits) > 1:
        raise invalid_parameter(
            "max_tokens", "max_tokens and max_completion_tokens differ; give only max_completion_tokens."
        )
    if body.top_logprobs is not None and not body.logprobs and body.top_logprobs > 0:
        raise invalid_parameter("top_logprobs", "top_logprobs is only allowed together with logprobs=true.")
    return _common(
        body,
        chat=True,
        max_tokens=next(iter(limits), None),
        logprobs=(body.top_logprobs or 0) if body.logprobs else None,
        prompts=(),
        messages=body.messages,
    )


def _common(
    body: _Body,
    *,
    chat: bool,
    max_tokens: int | None,
    logprobs: int | None,
    prompts: tuple[Prompt, ...],
    messages: tuple[Message, ...] | None,
) -> ChatOrCompletion:
    stream = bool(body.stream)
    if body.stream_options is not None and not stream:
        raise invalid_parameter("stream_options", "stream_options is only allowed together with stream=true.")
    if body.drafts and not stream:
        raise invalid_parameter("drafts", "drafts is only allowed together with stream=true.")
    n = 1 if body.n is None else body.n
    if len(prompts) * n > MAX_ROWS:
        raise invalid_parameter(
            "prompt",
            f"prompt has {len(prompts)} prompts with {n} choices each; at most {MAX_ROWS} choices are allowed in one request.",
        )
    return ChatOrCompletion(
        model=body.model,
        chat=chat,
        stream=stream,
        include_usage=bool(body.stream_options and body.stream_options.include_usage),
        drafts=bool(body.drafts),
        max_tokens=max_tokens,
        temperature=1.0 if body.temperature is None else body.temperature,
        top_p=1.0 if body.top_p is None else body.top_p,
        seed=body.seed,
        stop=body.stop,
        n=n,
        presence_penalty=body.presence_penalty or 0.0,
        frequency_penalty=body.frequency_penalty or 0.0,
        logit_bias=body.logit_bias,
        logprobs=logprobs,
        sampler=body.sampler,
        prompts=prompts,
        messages=messages,
        user=body.user,
        workload=body.workload,
    )


def _validated(kind: type[B], raw: bytes) -> B:
    try:
        body = pydantic_core.from_json(raw)
    except ValueError as error:
        raise ApiError(400, f"The body is not valid JSON: {error}.", code="invalid_json") from None
    if not isinstance(body, dict):
        raise ApiError(400, f"The body must be a JSON object, not {type(body).__name__}.", code="invalid_json")
    try:
        return kind.model_validate(without_unsupported(body))
    except ValidationError as error:
        raise first_fault(error) from None
