"""The batching window: what it buys and costs when an idle engine waits for company."""

import random
import statistics
from contextlib import ExitStack
from dataclasses import dataclass
from typing import Any

from diffusion_worker.engine import Engine, PassKind
from diffusion_worker.wire import GenerateRequest, Message

from benchmarks import paths
from benchmarks.engine.drive import Recorder, answer, open_engine
from benchmarks.load import LoadGuard
from benchmarks.measure import Tally, interleaved
from benchmarks.progress import say

WINDOWS = (0.0, 0.05, 0.1)
_ROWS = 16
_TOKENS = 64
_SEED = 11


@dataclass(frozen=True)
class Arrivals:
    """When requests come, in seconds after the first."""

    name: str
    at: tuple[float, ...]


@dataclass(frozen=True)
class Sample:
    """One measurement."""

    first_block_seconds: float  # mean over the requests
    total_seconds: float
    rows_per_pass: float
    passes: int


def arrivals(*, quick: bool) -> list[Arrivals]:
    """Poisson arrivals at several rates, and bursts: a page that asks for several texts at once."""
    rng = random.Random(_SEED)
    count = 4 if quick else 12
    made = []
    for rate in (1, 4, 16):
        gaps = [rng.expovariate(rate) for _ in range(count - 1)]
        made.append(Arrivals(f"{rate} per second", tuple(sum(gaps[:i]) for i in range(count))))
    bursts = 1 if quick else 3
    at = [burst * 3.0 + rng.uniform(0, 0.03) for burst in range(bursts) for _ in range(4)]
    made.append(Arrivals("4 within 30 ms, every 3 s", tuple(sorted(at))))
    return made


def measure(*, runs: int, quick: bool, guard: LoadGuard) -> dict[str, Any]:
    """By arrivals and window."""
    runs = 1 if quick else min(runs, 3)
    load = []
    content: dict[str, Any] = {}
    with ExitStack() as open_engines:
        engines, recorders = {}, {}
        for window in WINDOWS:
            name = f"{round(1000 * window)} ms"
            recorders[name] = Recorder()
            engines[name] = open_engine(paths.STORYTELLER, rows=_ROWS, window_seconds=window, recorder=recorders[name])
            open_engines.callback(engines[name].close, drain=False)
            _run(engines[name], recorders[name], Arrivals("warm-up", (0.0,) * 4))
        for pattern in arrivals(quick=quick):
            samples: dict[str, list[Sample]] = {name: [] for name in engines}
            for name in interleaved(list(engines), runs=runs):
                measured = guard.run(
                    f"window {name}, {pattern.name}",
                    lambda name=name, pattern=pattern: _run(engines[name], recorders[name], pattern),  # type: ignore[misc]
                )
                samples[name].append(measured.result)
                load.append(measured.load)
                say(f"window {name}, {pattern.name}: {measured.result} ({measured.load})")
            content[pattern.name] = {name: _tallies(each) for name, each in samples.items()}
    return {"arrivals": content, "load": load}


def _run(engine: Engine, recorder: Recorder, pattern: Arrivals) -> Sample:
    recorder.passes.clear()
    requests = [
        GenerateRequest(
            request_id=str(number),
            messages=[Message(role="user", content="Tell me a story about a brave fox.")],
            max_tokens=_TOKENS,
            seed=number,
        )
        for number in range(len(pattern.at))
    ]
    answers = answer(engine, requests, at=pattern.at)
    steps = [done for done in recorder.passes if done.kind is PassKind.DENOISE]
    return Sample(
        first_block_seconds=statistics.fmean(each.first_block_seconds for each in answers),
        total_seconds=statistics.fmean(each.total_seconds for each in answers),
        rows_per_pass=statistics.fmean(done.rows for done in steps),
        passes=len(steps),
    )


def _tallies(samples: list[Sample]) -> dict[str, Tally]:
    return {
        "first_block_seconds": Tally.of([sample.first_block_seconds for sample in samples]),
        "total_seconds": Tally.of([sample.total_seconds for sample in samples]),
        "rows_per_pass": Tally.of([sample.rows_per_pass for sample in samples]),
        "passes": Tally.of([sample.passes for sample in samples]),
    }
