"""`spec.sampler` and `spec.attention`: how a canvas is denoised, and what it sees.

The bounds are those of `diffusion_worker.config.SamplerConfig`, which a test compares. Which sampler knows which setting is
written down once, in `diffusion_worker.samplers.capabilities`; the rules below are made from it.
"""

from collections.abc import Iterator

from diffusion_worker.config import MaskCache, SamplerName, SamplerSettings, Schedule
from diffusion_worker.samplers.capabilities import EFFECTS
from pydantic import ConfigDict, Field
from pydantic.alias_generators import to_camel

from .base import ApiModel
from .units import cel

_TEMPERATURE = ("temperature_min", "temperature_max")
_SETTINGS = [name for name in SamplerSettings.model_fields if name not in ("name", *_TEMPERATURE)]
# Without a name the checkpoint's own sampler runs, and that is one of these.
_UNNAMED = (SamplerName.ENTROPY_BOUND, SamplerName.LOW_CONFIDENCE)


def _rules() -> Iterator[tuple[str, str]]:
    """Settings that the sampler does not know, one rule for each sampler."""
    for name, known in EFFECTS.items():
        unknown = [setting for setting in _SETTINGS if setting not in known]
        if unknown:
            absent = " && ".join(f"!has(self.{to_camel(setting)})" for setting in unknown)
            listed = ", ".join(to_camel(setting) for setting in unknown)
            yield (
                f"!has(self.name) || self.name != '{name}' || ({absent})",
                f"{name} does not know {listed}: remove what is set of these, or choose a sampler that knows it",
            )
    for setting in _SETTINGS:
        knowing = [name for name, known in EFFECTS.items() if setting in known]
        if not any(name in knowing for name in _UNNAMED):
            yield (
                f"has(self.name) || !has(self.{to_camel(setting)})",
                f"only {', '.join(knowing)} knows {to_camel(setting)}: set name as well",
            )


class TemperatureRange(ApiModel):
    """Temperature of the denoising steps."""

    model_config = ConfigDict(
        json_schema_extra=cel(
            (
                "!has(self.min) || !has(self.max) || self.min <= self.max",
                "min is above max: swap them, or make them equal",
            )
        )
    )

    min: float | None = Field(
        default=None, gt=0, le=4, description="At the last step. Default: as the checkpoint says."
    )
    max: float | None = Field(
        default=None, gt=0, le=4, description="At the first step. Default: as the checkpoint says."
    )


class Sampler(ApiModel):
    """How a canvas (a block of tokens that is denoised together) is sampled. Absent: as the checkpoint says."""

    model_config = ConfigDict(
        json_schema_extra=cel(
            *_rules(),
            (
                "!has(self.deterministic) || !self.deterministic || !has(self.stochasticity) || self.stochasticity == 0.0",
                "a deterministic sampler draws nothing: remove stochasticity, or set it to 0",
            ),
        )
    )

    name: SamplerName | None = Field(
        default=None,
        description="entropy_bound accepts tokens while the sum of their entropies stays under a bound; discrete_ddim "
        "steps down the noise levels; block_refinement accepts a quota per step; low_confidence unmasks the most certain "
        "tokens (mask-token models). Default: as the checkpoint says.",
    )
    canvas_length: int | None = Field(
        default=None,
        ge=8,
        le=1024,
        description="Tokens per canvas. Default: the length the model was trained with; 32 for mask-token models, which have none.",
    )
    max_denoising_steps: int | None = Field(
        default=None,
        ge=1,
        le=1024,
        description="Most passes per canvas. Fewer is faster and rougher. Default: as the checkpoint says; 20 for a "
        "sampler that is not the checkpoint's own.",
    )
    schedule: Schedule | None = Field(
        default=None,
        description="How steps are spaced in time: cosine takes large steps early and small ones late. Default: linear "
        "for the checkpoint's own sampler, cosine for others.",
    )
    adaptive: bool | None = Field(
        default=None, description="Skip ahead when a canvas has settled: fewer steps in all. Default: false."
    )
    temperature: TemperatureRange | None = Field(default=None, description="Temperature over the steps of a canvas.")
    top_p: float | None = Field(
        default=None, gt=0, le=1, description="Keep the most likely tokens up to this probability mass. Default: 1."
    )
    guidance_scale: float | None = Field(
        default=None,
        ge=0,
        le=10,
        description="Classifier-free guidance towards the prompt. 0 is off and costs nothing; above it each step passes "
        "over twice as many rows. Default: 0.",
    )
    deterministic: bool | None = Field(
        default=None,
        description="No random numbers decide: the most likely tokens, whatever the seed. Default: false.",
    )
    stochasticity: float | None = Field(
        default=None,
        ge=0,
        le=1,
        description="For discrete_ddim: from 0 (DDIM) to 1 (DDPM, the full posterior). Default: 1.",
    )
    stability_threshold: int | None = Field(
        default=None,
        ge=0,
        le=64,
        description="Steps a canvas must stay unchanged before it is committed early. Default: as the checkpoint says.",
    )
    confidence_threshold: float | None = Field(
        default=None,
        ge=0,
        description="Mean entropy under which a stable canvas is committed early. Default: as the checkpoint says.",
    )
    entropy_bound: float | None = Field(
        default=None,
        gt=0,
        description="For entropy_bound: how much entropy is accepted per step. Default: as the checkpoint says.",
    )
    accept_threshold: float | None = Field(
        default=None,
        gt=0,
        le=1,
        description="For block_refinement and low_confidence: a token this likely is accepted beyond the step's quota; "
        "1 never. Default: 0.95; for mask-token models 0.9.",
    )


class Attention(ApiModel):
    """What a canvas sees of the text before it, and how exactly. Absent: all of it, as the checkpoint was trained."""

    model_config = ConfigDict(
        json_schema_extra=cel(
            (
                "!has(self.sink) || has(self.window)",
                "without a window every token is visible: remove sink, or set window",
            )
        )
    )

    window: int | None = Field(
        default=None,
        ge=1,
        le=1048576,
        description="Committed tokens that a full-attention layer still sees, the last ones, beside the sink. Less is faster "
        "on long texts and forgets what lies further back. Default: all.",
    )
    sink: int | None = Field(
        default=None,
        ge=0,
        le=1048576,
        description="With a window: tokens at the beginning that stay visible; the length of a canvas is a good "
        "choice. Default: 0.",
    )
    mask_cache: MaskCache | None = Field(
        default=None,
        description="For mask-token models (LLaDA, Dream): what is held fixed through the steps of a block. none is exact and "
        "passes over everything in each step; prefix holds prompt and committed blocks; dual also the masks behind the block. "
        "Default: prefix.",
    )
