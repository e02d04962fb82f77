"""How throughput and step time grow with the rows in a pass."""

import statistics
import time
from contextlib import ExitStack
from dataclasses import dataclass
from typing import Any

from diffusion_worker.engine import Engine, PassKind
from diffusion_worker.wire import GenerateRequest

from benchmarks import paths
from benchmarks.engine.drive import Recorder, answer, open_engine
from benchmarks.load import LoadGuard
from benchmarks.measure import Tally, interleaved
from benchmarks.progress import say

ROWS = (1, 2, 4, 8, 16, 32, 64)
QUICK_ROWS = (1, 2, 4, 8)
TOKENS = 64  # one canvas of 16 steps for each row
_PROMPT = "def forward(self, x): return x + 1 # hello world"


@dataclass(frozen=True)
class Sample:
    """One measurement."""

    tokens_per_second: float
    step_seconds: float  # median of the denoising passes
    loop_seconds: float  # per step, outside of the passes: batching, text, events


def requests(rows: int, *, tokens: int) -> list[GenerateRequest]:
    """As many requests as rows; each has a seed, so that every run draws the same."""
    return [
        GenerateRequest(request_id=str(row), prompt=f"{row} {_PROMPT}", max_tokens=tokens, seed=row)
        for row in range(rows)
    ]


def measure(*, runs: int, quick: bool, guard: LoadGuard) -> dict[str, Any]:
    """By rows: tokens per second, seconds per step, and per step outside of the passes."""
    counts = QUICK_ROWS if quick else ROWS
    recorders = {str(rows): Recorder() for rows in counts}
    samples: dict[str, list[Sample]] = {name: [] for name in recorders}
    load = []
    with ExitStack() as open_engines:
        engines = {}
        for name, recorder in recorders.items():
            engines[name] = open_engine(paths.SAME_WORK_CHECKPOINT, rows=int(name), recorder=recorder)
            open_engines.callback(engines[name].close, drain=False)
            run(engines[name], recorder, rows=int(name), tokens=TOKENS)  # the first pass allocates
        for name in interleaved(list(recorders), runs=runs):
            measured = guard.run(
                f"scaling, {name} rows",
                lambda name=name: run(engines[name], recorders[name], rows=int(name), tokens=TOKENS),  # type: ignore[misc]
            )
            samples[name].append(measured.result)
            load.append(measured.load)
            say(f"scaling, {name} rows: {measured.result.tokens_per_second:.0f} tokens/s ({measured.load})")
    rows = {
        name: {
            "tokens_per_second": Tally.of([sample.tokens_per_second for sample in each]),
            "step_seconds": Tally.of([sample.step_seconds for sample in each]),
            "loop_seconds": Tally.of([sample.loop_seconds for sample in each]),
        }
        for name, each in samples.items()
    }
    return {"rows": rows, "tokens": TOKENS, "load": load}


def run(engine: Engine, recorder: Recorder, *, rows: int, tokens: int) -> Sample:
    """Answer `rows` requests at once."""
    recorder.passes.clear()
    started = time.monotonic()
    answers = answer(engine, requests(rows, tokens=tokens))
    seconds = time.monotonic() - started
    steps = recorder.seconds(PassKind.DENOISE)
    in_passes = sum(done.seconds for done in recorder.passes)
    return Sample(
        tokens_per_second=sum(each.tokens for each in answers) / seconds,
        step_seconds=statistics.median(steps),
        loop_seconds=(seconds - in_passes) / len(steps),
    )
