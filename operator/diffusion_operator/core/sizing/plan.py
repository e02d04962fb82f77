"""The largest workload that fits a budget, or what is missing and what would fit."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from decimal import Decimal

from diffusion_worker.config import PlannedBytes
from diffusion_worker.inspect.facts import Family, ModelFacts
from diffusion_worker.sizing import (
    Arm,
    Device,
    Dtype,
    EngineCosts,
    Footprint,
    SizingError,
    Workload,
    dtype_of,
    engine_costs,
    footprint,
)

MOST_ROWS = 64  # spec.limits.maxBatchSize
LEAST_TOKENS = 16  # spec.limits.maxSequenceLength
MOST_GPUS = 8  # spec.resources.gpus
LEAST_CANVAS, MOST_CANVAS = 8, 1024  # spec.sampler.canvasLength


@dataclass(frozen=True, kw_only=True)
class Budget:
    """Memory that may be planned with, of each GPU; of the container on CPU."""

    memory_bytes: int
    utilization: float = 0.9

    @property
    def bytes(self) -> int:
        """Whole bytes, rounded down."""
        return int(Decimal(str(self.utilization)) * self.memory_bytes)


@dataclass(frozen=True, kw_only=True)
class Asked:
    """What a user wants. None means auto: the most rows, the model's own length, canvas and engine."""

    rows: int | None = None
    tokens: int | None = None
    canvas: int | None = None
    dtype: str = "auto"
    gpus: int = 1
    guidance: bool = False
    arm: Arm | None = None


@dataclass(frozen=True, kw_only=True)
class Alternative:
    """The nearest workload that fits when one thing is changed."""

    change: str
    rows: int
    tokens: int
    dtype: Dtype
    gpus: int
    total_bytes: int


@dataclass(frozen=True, kw_only=True)
class Plan:
    """A workload and what it takes on each GPU. When it does not fit, rows are those asked for, or 1 for auto."""

    fits: bool
    rows: int
    tokens: int
    canvas: int
    dtype: Dtype
    gpus: int
    budget_bytes: int
    bytes: Footprint
    alternatives: tuple[Alternative, ...] = ()

    @property
    def shortfall_bytes(self) -> int:
        """How much is missing; 0 when it fits."""
        return max(0, self.bytes.total - self.budget_bytes)

    @property
    def planned_bytes(self) -> PlannedBytes:
        """The same as a worker's configuration has it."""
        return self.bytes.planned


def plan(
    facts: ModelFacts,
    asked: Asked,
    budget: Budget,
    *,
    device: Device = Device.CUDA,
    engine: EngineCosts | None = None,
) -> Plan:
    """Plan `asked` within `budget`. What is given is checked and never changed. `engine` replaces the habits of ours.

    Raises:
        SizingError: the model cannot be run like that with any amount of memory.
    """
    arm = arm_of(facts, asked)
    load = _least(facts, asked, arm)
    engine = engine or engine_costs(arm, device, facts.family)

    def fits(tried: Workload) -> bool:
        return footprint(facts, tried, engine).total <= budget.bytes

    if asked.rows is None:
        rows = _largest(1, MOST_ROWS, lambda count: fits(replace(load, rows=count)))
        load = replace(load, rows=rows or 1)
    found = footprint(facts, load, engine)
    enough = found.total <= budget.bytes
    return Plan(
        fits=enough,
        rows=load.rows,
        tokens=load.tokens,
        canvas=load.canvas,
        dtype=load.dtype,
        gpus=load.gpus,
        budget_bytes=budget.bytes,
        bytes=found,
        alternatives=()
        if enough
        else tuple(
            Alternative(
                change=change,
                rows=other.rows,
                tokens=other.tokens,
                dtype=other.dtype,
                gpus=other.gpus,
                total_bytes=footprint(facts, other, engine).total,
            )
            for change, other in _alternatives(facts, load, fits)
        ),
    )


def arm_of(facts: ModelFacts, asked: Asked) -> Arm:
    """The engine for a model: as asked, else diffusion when it is a diffusion model or a canvas is given."""
    autoregressive = facts.family is Family.AUTOREGRESSIVE and asked.canvas is None
    return asked.arm or (Arm.AR if autoregressive else Arm.DIFFUSION)


def _least(facts: ModelFacts, asked: Asked, arm: Arm) -> Workload:
    """The workload that was asked for, with one row where rows are auto."""
    tokens = facts.max_positions if asked.tokens is None else asked.tokens
    if asked.rows is not None and not 1 <= asked.rows <= MOST_ROWS:
        raise SizingError(f"{asked.rows} rows: write auto or a number from 1 to {MOST_ROWS}")
    if tokens < LEAST_TOKENS:
        raise SizingError(f"a sequence of {tokens} tokens: write auto or at least {LEAST_TOKENS}")
    if tokens > facts.max_positions:
        raise SizingError(
            f"a sequence of {tokens} tokens is longer than the {facts.max_positions} positions of the model"
        )
    if not _can_split(facts, asked.gpus):
        raise SizingError(
            f"the attention heads of the model cannot be split over {asked.gpus} GPUs: {_splits(facts)} can be"
        )
    if asked.guidance and arm is Arm.AR:
        raise SizingError("guidance is of diffusion: leave it out for an autoregressive model")
    if asked.canvas is not None and arm is Arm.AR:
        raise SizingError("an autoregressive engine has no canvas: leave it out, or choose the engine diffusion")
    return Workload(
        rows=asked.rows or 1,
        tokens=tokens,
        canvas=1 if arm is Arm.AR else _canvas(facts, asked),
        guidance=asked.guidance,
        dtype=dtype_of(facts, asked.dtype),
        gpus=asked.gpus,
    )


def _canvas(facts: ModelFacts, asked: Asked) -> int:
    canvas = facts.canvas_length if asked.canvas is None else asked.canvas
    if canvas is None:
        raise SizingError(
            f"config.json of {facts.model_type} gives no canvas length: say how many tokens a block has, such as 64"
        )
    if not LEAST_CANVAS <= canvas <= MOST_CANVAS:
        raise SizingError(f"a canvas of {canvas} tokens: write a number from {LEAST_CANVAS} to {MOST_CANVAS}")
    return canvas


def _alternatives(
    facts: ModelFacts, load: Workload, fits: Callable[[Workload], bool]
) -> Iterator[tuple[str, Workload]]:
    shortest = max(LEAST_TOKENS, load.canvas)  # less than a canvas helps nobody
    rows = _largest(1, load.rows - 1, lambda count: fits(replace(load, rows=count)))
    tokens = _largest(shortest, load.tokens - 1, lambda length: fits(replace(load, tokens=length)))
    if rows:
        yield "fewer rows", replace(load, rows=rows)
    if tokens:
        yield "shorter", replace(load, tokens=tokens)
    if not rows and not tokens and load.rows > 1:
        one = replace(load, rows=1)
        tokens = _largest(shortest, load.tokens - 1, lambda length: fits(replace(one, tokens=length)))
        if tokens:
            yield "fewer rows and shorter", replace(one, tokens=tokens)
    narrower = [] if facts.quantization else list(Dtype)[list(Dtype).index(load.dtype) + 1 :]
    for dtype in narrower:
        if fits(replace(load, dtype=dtype)):
            yield "other dtype", replace(load, dtype=dtype)
            break
    for gpus in range(load.gpus + 1, MOST_GPUS + 1):
        if _can_split(facts, gpus) and fits(replace(load, gpus=gpus)):
            yield "more GPUs", replace(load, gpus=gpus)
            break


def _largest(least: int, most: int, holds: Callable[[int], bool]) -> int | None:
    """The largest number from `least` to `most` for which `holds`, which is true up to it and false above; None: none."""
    if most < least or not holds(least):
        return None
    while least < most:
        middle = (least + most + 1) // 2
        if holds(middle):
            least = middle
        else:
            most = middle - 1
    return least


def _can_split(facts: ModelFacts, gpus: int) -> bool:
    """Tensor parallelism gives each GPU whole heads, as many as the others."""
    return 1 <= gpus <= MOST_GPUS and all(
        group.heads % gpus == 0 and (group.kv_heads % gpus == 0 or gpus % group.kv_heads == 0) for group in facts.layers
    )


def _splits(facts: ModelFacts) -> str:
    return ", ".join(str(gpus) for gpus in range(1, MOST_GPUS + 1) if _can_split(facts, gpus))
