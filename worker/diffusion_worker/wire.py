"""What passes between gateway and worker: one request, then events until a finish, a score or an error.

Both ends import this module and `config` and nothing else of each other, so both must stay free of torch. The JSON is one BYTES
element in Triton's tensors `request` and `event`: optional tensors would split Triton's batches, and release 2.51 knows no response parameters.
Both ends leave out what says nothing (`encode_request`, `encode_event`), and the gateway takes no notice of what it does not know in an event, so
that a field that a later release adds stops no older peer. A worker refuses what it does not know in a request: it could not honour it.
"""

from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Discriminator, Field, Tag, TypeAdapter, model_validator

from diffusion_worker.config import SamplerSettings

MODEL_NAME = "dlm"
REQUEST_TENSOR = "request"
EVENT_TENSOR = "event"
# Parameters of Triton's request beside the tensor: a worker that does not know one takes no notice.
REVISION_PARAMETER = "revision"  # the worker's, as the gateway believes; another one's worker answers `wrong_revision`
TRACEPARENT_PARAMETER = "traceparent"  # W3C trace context, for log lines
SCORE_PRIORITY = (
    2  # of scores and background requests in Triton's queue; requests that a client waits for have 1, which goes first
)
MAX_LOGPROBS = 20  # alternatives per token
MAX_BIASED_TOKENS = 1024

Penalty = Annotated[float, Field(ge=-2.0, le=2.0)]
Bias = Annotated[float, Field(ge=-100.0, le=100.0)]
TokenId = Annotated[int, Field(ge=0, lt=2**31)]
# Nothing is said about a list's other entries once one is wrong: each takes a kilobyte to say, and there may be millions.
TokenIds = Annotated[list[int], Field(fail_fast=True)]


class Message(BaseModel):
    """One chat turn; the worker renders turns with the checkpoint's chat template."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    role: Literal["system", "user", "assistant"]
    content: str


Messages = Annotated[list[Message], Field(fail_fast=True)]


class GenerateRequest(BaseModel):
    """One request for one row. Exactly one of `prompt`, `prompt_token_ids`, `messages` is given."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    request_id: str
    prompt: str | None = None
    prompt_token_ids: TokenIds | None = None
    messages: Messages | None = None
    max_tokens: int | None = Field(default=None, ge=1, description="None: up to the sequence limit of the worker.")
    temperature: float = Field(
        default=1.0,
        ge=0.0,
        le=2.0,
        description="0 takes the most likely token. A diffusion arm multiplies its schedule's temperature by it.",
    )
    top_p: float = Field(default=1.0, gt=0.0, le=1.0)
    seed: int | None = Field(default=None, ge=0, lt=2**63, description="None: the worker draws one and returns it.")
    stop: list[str] = Field(default_factory=list, max_length=4)
    sampler: SamplerSettings = Field(
        default=SamplerSettings(), description="For a diffusion arm; an autoregressive arm has no canvases to denoise."
    )
    presence_penalty: Penalty = Field(default=0.0, description="AR only. Taken off the logit of each generated token.")
    frequency_penalty: Penalty = Field(default=0.0, description="AR only. As often as the token was generated.")
    logit_bias: dict[TokenId, Bias] = Field(
        default_factory=dict, max_length=MAX_BIASED_TOKENS, description="AR only. Added to the logits of tokens."
    )
    logprobs: int | None = Field(
        default=None,
        ge=0,
        le=MAX_LOGPROBS,
        description="AR only. Log-probability of each token, and of this many most likely ones in its place.",
    )
    drafts: bool = Field(
        default=False, description="Diffusion only: show the canvas in work as `DraftEvent`s between its blocks."
    )
    background: bool = Field(
        default=False,
        description="Answer it, in one block, while nobody else waits; a request that does takes its row (`preempted`).",
    )

    @model_validator(mode="after")
    def _has_one_prompt(self) -> "GenerateRequest":
        _one_of(self, "prompt", "prompt_token_ids", "messages")
        return self

    @property
    def autoregressive_only(self) -> tuple[str, ...]:
        """What it asks for that has no meaning where all tokens of a canvas are drawn at once."""
        asked = {
            "presence_penalty": self.presence_penalty != 0,
            "frequency_penalty": self.frequency_penalty != 0,
            "logit_bias": bool(self.logit_bias),
            "logprobs": self.logprobs is not None,
        }
        return tuple(name for name, is_asked in asked.items() if is_asked)


class ScoreRequest(BaseModel):
    """How likely the AR model finds a given text after a prompt. One of each of the two groups of fields is given.

    The completion is made into tokens on its own, without special ones, and put behind those of the prompt.
    """

    model_config = ConfigDict(extra="forbid", frozen=True)

    type: Literal["score"] = "score"
    request_id: str
    prompt: str | None = None
    prompt_token_ids: TokenIds | None = None
    messages: Messages | None = None
    completion: str | None = None
    completion_token_ids: TokenIds | None = None
    include_eos: bool = Field(default=False, description="Count the end of the answer as one more token.")

    @model_validator(mode="after")
    def _has_one_of_each(self) -> "ScoreRequest":
        _one_of(self, "prompt", "prompt_token_ids", "messages")
        _one_of(self, "completion", "completion_token_ids")
        return self


def _one_of(request: BaseModel, *names: str) -> None:
    given = [name for name in names if getattr(request, name) is not None]
    if len(given) != 1:
        raise ValueError(f"give exactly one of {', '.join(names[:-1])} and {names[-1]}, not {given or 'none'}")


def _type_of(value: Any) -> str:
    """Requests for an answer have no type: there was no other kind when the wire was made."""
    kind = value.get("type", "generate") if isinstance(value, dict) else getattr(value, "type", "generate")
    return kind if isinstance(kind, str) else ""


Request = Annotated[
    Annotated[GenerateRequest, Tag("generate")] | Annotated[ScoreRequest, Tag("score")], Discriminator(_type_of)
]
REQUEST: TypeAdapter[GenerateRequest | ScoreRequest] = TypeAdapter(Request)


def encode_request(request: GenerateRequest | ScoreRequest) -> bytes:
    """JSON of a request."""
    if isinstance(request, ScoreRequest):
        return request.model_dump_json(exclude_none=True).encode()
    return request.model_dump_json(exclude_none=True, exclude_defaults=True).encode()


class Likelihood(BaseModel):
    """A token and how likely the model found it at its place: before temperature, penalties and bias."""

    model_config = ConfigDict(extra="ignore", frozen=True)

    utf8: list[int] = Field(description="Bytes of the token, which may be half a character.")
    logprob: float = Field(description="Natural logarithm; at least -9999.")


class TokenLikelihood(Likelihood):
    """A token of the answer."""

    top: list[Likelihood] = Field(default_factory=list, description="The most likely tokens in its place, best first.")


class BlockEvent(BaseModel):
    """Committed text: a canvas from a diffusion arm, one or more tokens from an AR arm. `text` may be empty (held back for a stop string or an unfinished character)."""

    model_config = ConfigDict(extra="ignore", frozen=True)

    type: Literal["block"] = "block"
    index: int = Field(ge=0, description="Counts the blocks of this request from 0.")
    text: str
    tokens: int = Field(ge=0)
    steps: int = Field(ge=1, description="Passes that made this block: denoising steps, or 1 per AR token.")
    converged: bool = Field(
        default=True,
        description="False: the canvas of a sampler that works until it is stable and confident (entropy_bound) hit the step cap. "
        "The others plan all their steps, and the last one decides what is left: always true, as of AR.",
    )
    logprobs: list[TokenLikelihood] | None = Field(
        default=None, description="One for each of `tokens`; only when the request asked for them."
    )


class DraftEvent(BaseModel):
    """The canvas in work as text that may still change. Only for requests that ask for `drafts`; never counted as output."""

    model_config = ConfigDict(extra="ignore", frozen=True)

    type: Literal["draft"] = "draft"
    index: int = Field(ge=0, description="Of the block that this canvas becomes.")
    step: int = Field(ge=1, description="Denoising steps that the canvas has had.")
    text: str


class Degeneration(BaseModel):
    """How much an answer repeats itself, over its token ids; see `docs/quality.md`."""

    model_config = ConfigDict(extra="ignore", frozen=True)

    repetition: float = Field(ge=0, le=1, description="Share of repeated tokens in the worst window.")
    repeats: bool = Field(description="Whether that is more than natural text has.")
    distinct_2: float = Field(ge=0, le=1, description="Different pairs of neighbours among all pairs.")


class FinishEvent(BaseModel):
    """The row is done."""

    model_config = ConfigDict(extra="ignore", frozen=True)

    type: Literal["finish"] = "finish"
    reason: Literal["stop", "length"]
    prompt_tokens: int
    completion_tokens: int
    steps: int = Field(description="Denoising steps (diffusion) or decoding passes (AR) in all.")
    blocks: int
    seed: int
    queue_seconds: float = Field(description="From arrival in the engine to the first pass.")
    degeneration: Degeneration | None = Field(
        default=None, description="None: the answer is shorter than the window in which repetition counts."
    )


class ScoreEvent(BaseModel):
    """The answer to a `ScoreRequest`. exp(nll / tokens) is the perplexity."""

    model_config = ConfigDict(extra="ignore", frozen=True)

    type: Literal["score"] = "score"
    nll: float = Field(
        description="Nats: the sum of -ln p over the tokens of the completion, each given all before it."
    )
    tokens: int = Field(ge=1, description="Of the completion; the end of the answer is one more if it was asked for.")
    text_bytes: int = Field(ge=0, description="UTF-8 of the completion: nll / text_bytes compares tokenizers.")
    prompt_tokens: int


class ErrorEvent(BaseModel):
    """The row failed or was cancelled; others are not touched."""

    model_config = ConfigDict(extra="ignore", frozen=True)

    type: Literal["error"] = "error"
    code: Literal[
        "invalid_request",
        "context_length_exceeded",
        "engine_error",
        "non_finite",
        "out_of_memory",
        "wrong_revision",
        "shutting_down",
        "cancelled",
        "preempted",
        "overloaded",
    ] = Field(
        description="non_finite: logits were not numbers. out_of_memory: this row alone failed. wrong_revision: another worker has "
        "the address now. preempted: a background row made room. overloaded: too many scores wait, or the bytes of all rows do not "
        "fit; answers wait in Triton's queue otherwise."
    )
    message: str = Field(description="For the client: what was wrong, with which value, and what to do.")
    param: str | None = Field(default=None, description="The parameter at fault, in the wire's names.")


Event = Annotated[BlockEvent | DraftEvent | FinishEvent | ScoreEvent | ErrorEvent, Field(discriminator="type")]
EVENT: TypeAdapter[BlockEvent | DraftEvent | FinishEvent | ScoreEvent | ErrorEvent] = TypeAdapter(Event)


def encode_event(event: BlockEvent | DraftEvent | FinishEvent | ScoreEvent | ErrorEvent) -> bytes:
    """JSON of an event."""
    return event.model_dump_json(exclude_none=True).encode()
