"""What passes between gateway and worker: one request, then events until a finish or an error.

Both ends import this module and `config` and nothing else of each other, so both must stay free of torch. The JSON is one BYTES
element in Triton's tensors `request` and `event`: optional tensors would split Triton's batches, and release 2.51 knows no response parameters.
"""

from typing import Annotated, Literal

from pydantic import BaseModel, ConfigDict, Field, TypeAdapter, model_validator

from diffusion_worker.config import SamplerSettings

MODEL_NAME = "dlm"
REQUEST_TENSOR = "request"
EVENT_TENSOR = "event"


class Message(BaseModel):
    """One chat turn; the worker renders turns with the checkpoint's chat template."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    role: Literal["system", "user", "assistant"]
    content: str


class GenerateRequest(BaseModel):
    """One request for one row. Exactly one of `prompt`, `prompt_token_ids`, `messages` is given."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    request_id: str
    prompt: str | None = None
    prompt_token_ids: list[int] | None = None
    messages: list[Message] | None = None
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

    @model_validator(mode="after")
    def _has_one_prompt(self) -> "GenerateRequest":
        given = [name for name in ("prompt", "prompt_token_ids", "messages") if getattr(self, name) is not None]
        if len(given) != 1:
            raise ValueError(f"give exactly one of prompt, prompt_token_ids and messages, not {given or 'none'}")
        return self


class BlockEvent(BaseModel):
    """Committed text: a canvas from a diffusion arm, one or more tokens from an AR arm. `text` may be empty (held back for a stop string or an unfinished character)."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    type: Literal["block"] = "block"
    index: int = Field(ge=0, description="Counts the blocks of this request from 0.")
    text: str
    tokens: int = Field(ge=0)
    steps: int = Field(ge=1, description="Passes that made this block: denoising steps, or 1 per AR token.")
    converged: bool = Field(
        default=True, description="False: the canvas hit the step cap before it was stable and confident."
    )


class FinishEvent(BaseModel):
    """The row is done."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    type: Literal["finish"] = "finish"
    reason: Literal["stop", "length"]
    prompt_tokens: int
    completion_tokens: int
    steps: int = Field(description="Denoising steps (diffusion) or decoding passes (AR) in all.")
    blocks: int
    seed: int
    queue_seconds: float = Field(description="From arrival in the engine to the first pass.")


class ErrorEvent(BaseModel):
    """The row failed or was cancelled; others are not touched."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    type: Literal["error"] = "error"
    code: Literal["invalid_request", "context_length_exceeded", "engine_error", "shutting_down", "cancelled"]
    message: str = Field(description="For the client: what was wrong, with which value, and what to do.")
    param: str | None = Field(default=None, description="The parameter at fault, in the wire's names.")


Event = Annotated[BlockEvent | FinishEvent | ErrorEvent, Field(discriminator="type")]
EVENT: TypeAdapter[BlockEvent | FinishEvent | ErrorEvent] = TypeAdapter(Event)
