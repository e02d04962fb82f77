"""One case: what the plan says, and what the allocator had at its peak while the worker ran its largest steps."""

from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

from diffusion_worker.config import EngineConfig, EngineKind, SamplerConfig
from diffusion_worker.engine.load import load_runner
from diffusion_worker.engine.memory_check import measure_largest_step
from diffusion_worker.engine.memory_meter import MemoryMeter
from diffusion_worker.engine.runner import Runner
from diffusion_worker.inspect.folder import inspect_folder
from diffusion_worker.sizing import Arm, Device, Dtype, Workload, engine_costs, footprint

from benchmarks.sizing.shapes import Checkpoint

_MOST_ROWS = 32
_SIZES = ((1, 192), (1, 768), (3, 768), (8, 192), (6, 1024), (24, 192))  # rows × tokens
_SAMPLED = ((3, 192), (8, 192))  # with each sampler, with and without guidance


@dataclass(frozen=True)
class Case:
    """Rows of equal length."""

    rows: int
    tokens: int
    sampler: SamplerConfig = field(default_factory=SamplerConfig)

    @property
    def about(self) -> str:
        """Sampler and guidance; "" for what the checkpoint says."""
        named = [] if self.sampler.name is None else [self.sampler.name.value]
        return ", ".join([*named, "guidance"] if self.sampler.guidance_scale else named)


@dataclass(frozen=True)
class Measured:
    """Bytes beside the weights: planned by kind, and at the peak."""

    checkpoint: str
    rows: int
    tokens: int
    about: str
    kv: int
    logits: int
    self_conditioning: int
    activations: int
    peak: int

    @property
    def error(self) -> float:
        """0.1: the plan is a tenth above the peak."""
        return (self.kv + self.logits + self.self_conditioning + self.activations) / self.peak - 1


def cases(checkpoint: Checkpoint) -> Iterator[Case]:
    """Rows × lengths with the checkpoint's sampler, and samplers × guidance at two sizes."""
    for rows, tokens in _SIZES:
        yield Case(rows, tokens)
    for name in checkpoint.samplers:
        for guidance in (0.0, 1.5):
            for rows, tokens in _SAMPLED:
                yield Case(rows, tokens, SamplerConfig(name=name, guidance_scale=guidance))


def measure(checkpoint: Checkpoint, path: Path) -> Iterator[Measured]:
    """Run all its cases; each in an engine of its own, in which no canvases of another are left."""
    facts = inspect_folder(path)
    costs = engine_costs(Arm(checkpoint.kind.value), Device.CPU, facts.family)
    for case in cases(checkpoint):
        load = Workload(
            rows=case.rows,
            tokens=case.tokens,
            canvas=checkpoint.canvas,
            guidance=bool(case.sampler.guidance_scale),
            dtype=Dtype.FLOAT32,
            gpus=1,
        )
        planned = footprint(facts, load, costs)
        runner = _load(checkpoint, path, case.sampler)
        found = measure_largest_step(runner, load, costs, meter=MemoryMeter(runner.device))
        yield Measured(
            checkpoint=checkpoint.name,
            rows=case.rows,
            tokens=case.tokens,
            about=case.about,
            kv=planned.kv,
            logits=planned.logits,
            self_conditioning=planned.self_conditioning,
            activations=planned.activations,
            peak=found.kv + found.step,
        )


def _load(checkpoint: Checkpoint, path: Path, sampler: SamplerConfig) -> Runner:
    is_diffusion = checkpoint.kind is EngineKind.DIFFUSION
    return load_runner(
        EngineConfig(
            kind=checkpoint.kind,
            model=checkpoint.name,
            revision="local",
            source=f"file://{path}",
            path=str(path),
            max_batch_size=_MOST_ROWS,
            sampler=sampler.model_copy(update={"canvas_length": checkpoint.canvas}) if is_diffusion else sampler,
        )
    )
