"""`model.json`: what the operator tells a worker. Free of torch, because the operator writes it and the engine reads it."""

from enum import StrEnum

from pydantic import BaseModel, ConfigDict, Field


class EngineKind(StrEnum):
    """Which engine a worker runs."""

    DIFFUSION = "diffusion"
    AR = "ar"


class SamplerConfig(BaseModel):
    """How a canvas is denoised. None means: as the checkpoint's generation_config.json says."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    name: str = "entropy_bound"
    max_denoising_steps: int | None = Field(default=None, ge=1)
    temperature_min: float | None = Field(default=None, gt=0)
    temperature_max: float | None = Field(default=None, gt=0)
    top_p: float | None = Field(default=None, gt=0, le=1)
    entropy_bound: float | None = Field(default=None, gt=0)
    stability_threshold: int | None = Field(default=None, ge=0)
    confidence_threshold: float | None = Field(default=None, ge=0)


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
