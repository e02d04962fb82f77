"""Limits of one arm from its facts and the memory of a pod."""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import lru_cache
from types import MappingProxyType

from diffusion_worker.inspect.facts import Family, ModelFacts
from diffusion_worker.sizing.dtypes import weight_bytes

from diffusion_operator.api.models import (
    ArmKind,
    DiffusionModelSpec,
    Limits,
    MemoryPlan,
    ModelSource,
    Resources,
    Sampler,
)
from diffusion_operator.api.units import amount
from diffusion_operator.core import defaults
from diffusion_operator.core.sizing import Arm, Asked, Budget, Device, Plan, explain, plan


class WrongModelError(ValueError):
    """A checkpoint of the other kind."""


@dataclass(frozen=True, slots=True)
class Fit:
    """What was planned for one arm, for the limits as spec has them.

    `most_rows` is how many rows the engine may take where short ones are in flight: it admits them by what they need.
    """

    plan: Plan
    most_rows: int
    rows_are_auto: bool
    tokens_are_auto: bool
    most_tokens: int
    main_memory_bytes: int | None = None  # of a pod with a GPU

    @property
    def max_batch_size(self) -> int | None:
        """Rows that limits.maxBatchSize auto means; None: what is written, or the default."""
        return self.most_rows if self._fits_auto_rows else None

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
    def message(self) -> str:
        """The plan in words."""
        has_more = self.plan.fits and self.most_rows > self.plan.rows
        return explain(self.plan) + (f"; of shorter ones up to {self.most_rows} rows" if has_more else "")

    @property
    def _fits_auto_rows(self) -> bool:
        return self.rows_are_auto and self.plan.fits


NO_FITS: Mapping[ArmKind, Fit] = MappingProxyType({})


def fit(facts: ModelFacts, spec: DiffusionModelSpec, budget: Budget, *, kind: ArmKind, source: ModelSource) -> Fit:
    """Plan one arm. What is written is checked and never changed; what is auto is as much as fits.

    Where rows are not written either, the default is the most that the engine takes, and as many of full length are
    planned as fit: a default must not refuse what one that is lower would serve.

    Raises:
        WrongModelError: the checkpoint is not for this arm.
        SizingError: it cannot be run like that with any amount of memory.
    """
    _refuse_wrong_kind(facts, kind)
    limits, resources = spec.limits or Limits(), spec.resources or Resources()
    on_cpu = not resources.gpus
    rows, tokens = limits.max_batch_size, limits.max_sequence_length
    sampler = spec.sampler or Sampler()
    is_diffusion = kind is ArmKind.DIFFUSION
    asked = Asked(
        rows=None if rows == "auto" else rows or defaults.MAX_BATCH_SIZE,
        tokens=None if tokens == "auto" else tokens,
        canvas=_canvas(facts, sampler) if is_diffusion else None,
        dtype=_dtype(source, on_cpu=on_cpu),
        # The worker of this release runs a model on one GPU, however many a pod has.
        gpus=1,
        guidance=is_diffusion and bool(sampler.guidance_scale),
        arm=Arm(kind.value),
    )
    device = Device.CPU if on_cpu else Device.CUDA
    made = _plan(facts, asked, budget, device)
    if not made.fits:
        changes = _may_change(rows_are_written=isinstance(rows, int), tokens_are_auto=tokens == "auto")
        other = next((other for change in changes for other in made.alternatives if other.change == change), None)
        made = _plan(facts, replace(asked, rows=other.rows, tokens=other.tokens), budget, device) if other else made
    return Fit(
        plan=made,
        most_rows=defaults.MOST_ROWS if rows == "auto" else rows or defaults.MAX_BATCH_SIZE,
        rows_are_auto=rows == "auto",
        tokens_are_auto=tokens == "auto",
        most_tokens=facts.max_positions,
        main_memory_bytes=None if on_cpu else _main_memory_bytes(facts, made),
    )


def _main_memory_bytes(facts: ModelFacts, made: Plan) -> int:
    """All weights, of images' encoders too, are in main memory before they are on the GPU (models/checkpoint.py)."""
    return weight_bytes(facts, made.dtype, gpus=1, keeps_vision=True) + int(amount(defaults.MEMORY))


def _may_change(*, rows_are_written: bool, tokens_are_auto: bool) -> list[str]:
    """Which of the planner's alternatives keep to what is written, the least change first."""
    changes = [] if rows_are_written else ["fewer rows"]
    if tokens_are_auto:
        changes += ["shorter"] if rows_are_written else ["shorter", "fewer rows and shorter"]
    return changes


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
