"""`model.json`: what the operator tells a worker. Free of torch, because the operator writes it and the engine reads it."""

from enum import StrEnum

from pydantic import BaseModel, ConfigDict, Field


class EngineKind(StrEnum):
    """Which engine a worker runs."""

    DIFFUSION = "diffusion"
    AR = "ar"


class SamplerName(StrEnum):
    """Ways to denoise a canvas; each is one module of `diffusion_worker.samplers`."""

    ENTROPY_BOUND = "entropy_bound"
    DISCRETE_DDIM = "discrete_ddim"
    BLOCK_REFINEMENT = "block_refinement"
    LOW_CONFIDENCE = "low_confidence"


class MaskCache(StrEnum):
    """What a mask-token model (LLaDA, Dream) holds fixed through the steps of a block, which are exact without."""

    NONE = "none"
    PREFIX = "prefix"  # keys and values of prompt and committed blocks
    DUAL = "dual"  # of the masks behind the block as well


class Schedule(StrEnum):
    """How the denoising steps are spaced in time."""

    LINEAR = "linear"
    COSINE = "cosine"


class SamplerSettings(BaseModel):
    """What a request may say about how its canvases are denoised. None: as the model's resource, else its checkpoint, says.

    Which sampler honours which setting is in `docs/samplers.md`; one that it cannot honour is refused.
    """

    model_config = ConfigDict(extra="forbid", frozen=True, allow_inf_nan=False)  # JSON has no infinity

    name: SamplerName | None = None
    max_denoising_steps: int | None = Field(default=None, ge=1, le=1024)
    schedule: Schedule | None = None
    adaptive: bool | None = Field(
        default=None, description="Skip ahead in time when the canvas has settled: large steps early, fewer in all."
    )
    temperature_min: float | None = Field(default=None, gt=0, le=4, description="At the last step.")
    temperature_max: float | None = Field(default=None, gt=0, le=4, description="At the first step.")
    top_p: float | None = Field(default=None, gt=0, le=1)
    guidance_scale: float | None = Field(default=None, ge=0, le=10, description="0: off, and costs nothing.")
    deterministic: bool | None = Field(
        default=None, description="No random numbers decide: most likely tokens, and DDIM instead of DDPM."
    )
    stochasticity: float | None = Field(
        default=None, ge=0, le=1, description="discrete_ddim: from 0 (DDIM) to 1 (DDPM, the full posterior)."
    )
    stability_threshold: int | None = Field(
        default=None, ge=0, le=64, description="Steps for which the most likely canvas must not change."
    )
    confidence_threshold: float | None = Field(
        default=None, ge=0, description="Nats: mean entropy of a canvas below which it may be committed early."
    )
    entropy_bound: float | None = Field(default=None, gt=0, description="Nats that entropy_bound accepts per step.")
    accept_threshold: float | None = Field(
        default=None,
        gt=0,
        le=1,
        description="block_refinement, low_confidence: a token this likely is accepted beyond the step's quota. "
        "1: never (static).",
    )


class SamplerConfig(SamplerSettings):
    """What a resource says about it: settings that requests may override, and those that they may not."""

    canvas_length: int | None = Field(
        default=None, ge=8, le=1024, description="Tokens per canvas. None: the length the model was trained with."
    )


class PlannedBytes(BaseModel):
    """A plan's bytes on one device by kind. Their sum is at most the budget."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    weights: int = Field(ge=0)
    kv: int = Field(ge=0, description="Keys and values of all rows at their longest.")
    step: int = Field(ge=0, description="Logits, soft embeddings and activations of the largest pass.")
    reserve: int = Field(ge=0, description="Context of the device, and what fragmentation loses.")


class EngineConfig(BaseModel):
    """Everything one worker process needs to know."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    kind: EngineKind
    model: str = Field(description="Name of the DiffusionModel; a label of the metrics.")
    revision: str = Field(description="Hash of the revision; a label of the metrics.")
    source: str = Field(description="hf://, pvc://, image:// or file:// as in the resource.")
    source_revision: str | None = Field(default=None, description="Commit on the hub; for hf:// only.")
    path: str | None = Field(
        default=None, description="Local folder of the checkpoint; None for hf://, which the worker downloads."
    )
    dtype: str = Field(
        default="auto", description="auto (as the checkpoint says; float32 on CPU), float32 or bfloat16."
    )
    device: str = Field(default="auto", description="auto, cpu or cuda.")
    threads: int = Field(default=1, ge=1, description="Torch's intra-op threads on CPU.")
    max_batch_size: int = Field(default=8, ge=1, le=64, description="Rows in flight.")
    max_sequence_length: int | None = Field(
        default=None, ge=1, description="Prompt and output tokens of one row; None: the model's own limit."
    )
    batch_window_seconds: float = Field(
        default=0.05, ge=0, le=0.1, description="How long an idle engine waits for company. Never delays a running one."
    )
    sampler: SamplerConfig = SamplerConfig()
    mask_cache: MaskCache = Field(
        default=MaskCache.PREFIX, description="For mask-token models; see docs/mask-models.md."
    )
    full_attention_window: int | None = Field(
        default=None,
        ge=1,
        description="Full-attention layers see only this many of the last committed tokens, and the sink. None: all.",
    )
    full_attention_sink: int = Field(
        default=0, ge=0, description="With a window: tokens at the beginning that stay visible."
    )
    repetition_window: int = Field(
        default=32, ge=2, le=4096, description="Tokens in which a repetition counts; see docs/quality.md."
    )
    score_share: float = Field(
        default=0.05,
        ge=0,
        le=1,
        description="AR only: share of a busy engine's time that scores may take. 0: when idle.",
    )
    memory_budget: int | None = Field(
        default=None, ge=1, description="Bytes of the device that the plan may take; None: no limit is known."
    )
    planned: PlannedBytes | None = Field(
        default=None, description="What the plan gives to each part. None: nothing was planned."
    )
