"""Limits of one arm from its facts and the memory of a pod."""

from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache
from types import MappingProxyType

from diffusion_worker.inspect.facts import Family, ModelFacts

from diffusion_operator.api.models import (
    ArmKind,
    DiffusionModelSpec,
    Limits,
    MemoryPlan,
    ModelSource,
    Resources,
    Sampler,
)
from diffusion_operator.core import defaults
from diffusion_operator.core.sizing import Arm, Asked, Budget, Device, Plan, plan

# Alternatives of the planner that change nothing but the length.
_SHORTER = {True: ("shorter", "fewer rows and shorter"), False: ("shorter",)}


class WrongModelError(ValueError):
    """A checkpoint of the other kind."""


@dataclass(frozen=True, slots=True)
class Fit:
    """What was planned for one arm, for the limits as spec has them."""

    plan: Plan
    rows_are_auto: bool
    tokens_are_auto: bool
    most_tokens: int

    @property
    def max_batch_size(self) -> int | None:
        """Rows that limits.maxBatchSize auto means; None: what is written.

        The engine admits rows by what they need: of short ones it takes more than of full length ones.
        """
        return defaults.MOST_ROWS if self._fits_auto_rows else None

    @property
    def planned_rows(self) -> int | None:
        """Rows of full length, for auto."""
        return self.plan.rows if self._fits_auto_rows else None

    @property
    def max_sequence_length(self) -> int | None:
        """Tokens that limits.maxSequenceLength auto means; None: what is written, or the model's own."""
        is_less = self.tokens_are_auto and self.plan.fits and self.plan.tokens < self.most_tokens
        return self.plan.tokens if is_less else None

    @property
    def _fits_auto_rows(self) -> bool:
        return self.rows_are_auto and self.plan.fits


NO_FITS: Mapping[ArmKind, Fit] = MappingProxyType({})


def fit(facts: ModelFacts, spec: DiffusionModelSpec, budget: Budget, *, kind: ArmKind, source: ModelSource) -> Fit:
    """Plan one arm. What is written is checked and never changed; what is auto is as much as fits.

    Raises:
        WrongModelError: the checkpoint is not for this arm.
        SizingError: it cannot be run like that with any amount of memory.
    """
    _refuse_wrong_kind(facts, kind)
    limits, resources = spec.limits or Limits(), spec.resources or Resources()
    on_cpu = not resources.gpus
    rows, tokens = limits.max_batch_size, limits.max_sequence_length
    rows_are_auto, tokens_are_auto = rows == "auto", tokens == "auto"
    sampler = spec.sampler or Sampler()
    is_diffusion = kind is ArmKind.DIFFUSION

    def planned(length: int | None) -> Plan:
        asked = Asked(
            rows=None if rows == "auto" else rows or defaults.MAX_BATCH_SIZE,
            tokens=length,
            canvas=_canvas(facts, sampler) if is_diffusion else None,
            dtype=_dtype(source, on_cpu=on_cpu),
            # The worker of this release runs a model on one GPU, however many a pod has.
            gpus=1,
            guidance=is_diffusion and bool(sampler.guidance_scale),
            arm=Arm(kind.value),
        )
        return _plan(facts, asked, budget, Device.CPU if on_cpu else Device.CUDA)

    made = planned(None if tokens == "auto" else tokens)
    if tokens_are_auto and not made.fits:
        shorter = _SHORTER[rows_are_auto]
        lengths = [other.tokens for other in made.alternatives if other.change in shorter]
        made = planned(lengths[0]) if lengths else made
    return Fit(plan=made, rows_are_auto=rows_are_auto, tokens_are_auto=tokens_are_auto, most_tokens=facts.max_positions)


@lru_cache(maxsize=4096)
def _plan(facts: ModelFacts, asked: Asked, budget: Budget, device: Device) -> Plan:
    """A plan takes up to a tenth of a second, and each pass over a resource asks for the same ones again."""
    return plan(facts, asked, budget, device=device)


def memory_plan(made: Plan) -> MemoryPlan:
    """A plan in the parts that workers know."""
    parts = made.planned_bytes
    return MemoryPlan(
        budget_bytes=made.budget_bytes, weights=parts.weights, kv=parts.kv, step=parts.step, reserve=parts.reserve
    )


def _refuse_wrong_kind(facts: ModelFacts, kind: ArmKind) -> None:
    is_autoregressive = facts.family is Family.AUTOREGRESSIVE
    if kind is ArmKind.DIFFUSION and is_autoregressive:
        raise WrongModelError(
            f"{facts.model_type} is an autoregressive model, not a diffusion model: name a block-diffusion or mask-token "
            "checkpoint in spec.model, and this one in spec.fallback.model"
        )
    if kind is ArmKind.AR and not is_autoregressive:
        raise WrongModelError(
            f"{facts.model_type} is a diffusion model, not an autoregressive one: spec.fallback.model must be one that "
            "makes text token by token"
        )


def _canvas(facts: ModelFacts, sampler: Sampler) -> int | None:
    """None: what the checkpoint was trained with."""
    if sampler.canvas_length is None and facts.canvas_length is None:
        return defaults.MASK_CANVAS_LENGTH
    return sampler.canvas_length


def _dtype(source: ModelSource, *, on_cpu: bool) -> str:
    """As the worker does: half precision is slow on CPU."""
    wanted = source.dtype or "auto"
    return "float32" if on_cpu and wanted == "auto" else wanted
