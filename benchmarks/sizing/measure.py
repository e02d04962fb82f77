"""One case: what the plan says, and what the allocator had at its peak while the engine's runner did it."""

from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from diffusion_worker.config import EngineConfig, EngineKind, SamplerConfig, SamplerSettings
from diffusion_worker.engine.admission import admit_request
from diffusion_worker.engine.load import load_runner
from diffusion_worker.engine.memory_meter import MemoryMeter
from diffusion_worker.engine.row import Row
from diffusion_worker.engine.runner import Runner
from diffusion_worker.inspect.facts import ModelFacts
from diffusion_worker.inspect.folder import inspect_folder
from diffusion_worker.sizing import Arm, Device, Dtype, Footprint, Workload, engine_costs, footprint
from diffusion_worker.wire import GenerateRequest

from benchmarks.sizing.shapes import Checkpoint

_TOKEN = 300  # any that is no special one
_MOST_ROWS = 32
_STEPS = 8  # of a canvas: so many that the first is not done before the last prompt is read


@dataclass(frozen=True)
class Case:
    """Rows of equal length that begin together."""

    rows: int
    tokens: int
    about: str = "default"
    sampler: SamplerConfig = field(default_factory=SamplerConfig)
    more: tuple[tuple[str, Any], ...] = ()  # of each request

    @property
    def top_p(self) -> bool:
        """Whether rows draw within a part of the distribution."""
        return (dict(self.more).get("top_p") or self.sampler.top_p or 1.0) < 1.0

    @property
    def guidance(self) -> bool:
        """Whether each row has a second canvas."""
        return bool(self.sampler.guidance_scale)


@dataclass(frozen=True)
class Measured:
    """Bytes beside the weights: planned by kind, and at the peak."""

    checkpoint: str
    case: Case
    planned: Footprint
    peak: int

    @property
    def expected(self) -> int:
        """The plan without weights and reserve."""
        return self.planned.kv + self.planned.step

    @property
    def error(self) -> float:
        """0.1: the plan is a tenth above the peak."""
        return self.expected / self.peak - 1


def cases(checkpoint: Checkpoint, *, quick: bool) -> Iterator[Case]:
    """Rows × lengths with the default sampler, and samplers × guidance at one size."""
    sizes = [(1, 192), (1, 768), (3, 192), (8, 192)]
    if not quick:
        sizes += [(1, 2048), (3, 768), (3, 2048), (8, 768), (24, 192)]
    for rows, tokens in sizes:
        yield Case(rows, tokens)
    if checkpoint.kind is EngineKind.AR:
        yield Case(3, 768, "top_p 0.9", more=(("top_p", 0.9),))
        yield Case(3, 768, "log-probabilities", more=(("logprobs", 5),))
        return
    for about, sampler in (
        ("top_p 0.05", SamplerConfig(top_p=0.05)),
        ("guidance", SamplerConfig(guidance_scale=1.5)),
        ("guidance, top_p 0.05", SamplerConfig(guidance_scale=1.5, top_p=0.05)),
    ):
        yield Case(3, 192, about, sampler)
        if not quick:
            yield Case(8, 768, about, sampler)
    if checkpoint.canvas == 64:
        yield Case(3, 192, "discrete_ddim", SamplerConfig.model_validate({"name": "discrete_ddim"}))
        yield Case(3, 192, "block_refinement", SamplerConfig.model_validate({"name": "block_refinement"}))


def measure(checkpoint: Checkpoint, path: Path, wanted: list[Case]) -> Iterator[Measured]:
    """Run each case; the model is loaded once for each sampler."""
    facts = inspect_folder(path)
    for sampler in dict.fromkeys(case.sampler for case in wanted):
        runner = _load(checkpoint, path, sampler)
        for case in wanted:
            if case.sampler == sampler:
                yield Measured(checkpoint.name, case, planned(checkpoint, facts, case), _peak(runner, checkpoint, case))


def planned(checkpoint: Checkpoint, facts: ModelFacts, case: Case) -> Footprint:
    """The plan on a CPU, which is where this runs."""
    arm = Arm(checkpoint.kind.value)
    load = Workload(
        rows=case.rows,
        tokens=case.tokens,
        canvas=checkpoint.canvas,
        guidance=case.guidance,
        top_p=case.top_p,
        scores=False,
        dtype=Dtype.FLOAT32,
        gpus=1,
    )
    return footprint(facts, load, engine_costs(arm, Device.CPU, facts.family))


def _load(checkpoint: Checkpoint, path: Path, sampler: SamplerConfig) -> Runner:
    config = EngineConfig(
        kind=checkpoint.kind,
        model=checkpoint.name,
        revision="local",
        source=f"file://{path}",
        path=str(path),
        max_batch_size=_MOST_ROWS,
        sampler=sampler.model_copy(update={"canvas_length": checkpoint.canvas}),
    )
    if checkpoint.kind is EngineKind.AR:
        config = config.model_copy(update={"sampler": SamplerConfig()})
    runner = load_runner(config)
    runner.eos_token_ids = frozenset()  # answers are as long as they are asked to be
    return runner


def _peak(runner: Runner, checkpoint: Checkpoint, case: Case) -> int:
    """The longest rows there are: the canvas of each begins one token before its end."""
    answer = checkpoint.shortest_answer
    if checkpoint.kind is EngineKind.AR:
        answer += case.rows
    with MemoryMeter(runner.device) as meter:
        for together in (True, False) if case.rows > 1 else (True,):
            _run(runner, case, answer, together=together)
    return meter.peak_bytes


def _run(runner: Runner, case: Case, answer: int, *, together: bool) -> None:
    """All rows to their end; they begin at once, or one in each step, beside those that run already."""
    waiting, rows = list(range(case.rows)), list[Row]()
    while waiting or rows:
        arriving = len(waiting) if together else min(1, len(waiting))
        rows += [_admitted(runner, case, waiting.pop(0), answer) for _ in range(arriving)]
        for commit in runner.step(rows).commits:
            row = commit.row
            row.blocks += 1
            row.steps += commit.steps
            if row.output.push(commit.token_ids).finish is not None:
                runner.release(row)
                rows.remove(row)


def _admitted(runner: Runner, case: Case, i: int, answer: int) -> Row:
    request = GenerateRequest(
        request_id=str(i),
        prompt_token_ids=[_TOKEN + i] * (case.tokens - answer),
        max_tokens=answer,
        seed=i,
        sampler=SamplerSettings(max_denoising_steps=_STEPS),
        **dict(case.more),
    )
    row = admit_request(request, runner=runner, emit=lambda _: None)
    runner.admit(row)
    return row
