"""Same work: every competitor makes the same passes over the same model, on the same cores."""

from collections.abc import Callable
from functools import partial

from benchmarks import paths
from benchmarks.load import LoadGuard
from benchmarks.peers import contestants
from benchmarks.peers.placement import Placement
from benchmarks.peers.rounds import Part, Rounds
from benchmarks.peers.running import running
from benchmarks.peers.work import Done, SameWork, Worker
from benchmarks.progress import say

CONCURRENCIES = (1, 8)
PROMPTS = 8
TOKENS = 256
QUICK_TOKENS = 64
DESCRIPTION = (
    f"{PROMPTS} prompts x {TOKENS} tokens, canvases of 64, 16 denoising steps each, no early stop, no end of text"
)
_WARM_UP_TOKENS = 64
_STARTS: dict[str, Callable[..., Worker]] = {
    "ours": contestants.start_engine,
    "ours_served": contestants.start_served,
    "vllm": contestants.start_vllm,
    "transformers": contestants.start_transformers,
}


def work(concurrency: int, *, tokens: int) -> SameWork:
    """The same prompts for everyone; of equal length, so that a static batch needs no padding."""
    prompts = tuple(f"{i} def forward(self, x): return x + 1 # hello world" for i in range(PROMPTS))
    return SameWork(prompts=prompts, tokens=tokens, concurrency=concurrency)


def measure(*, placement: Placement, runs: int, quick: bool, fresh: bool, guard: LoadGuard) -> dict[str, Rounds[Done]]:
    """Rounds by `c1`, `c8`."""
    tokens = QUICK_TOKENS if quick else TOKENS
    parts = {
        concurrency: Part(
            f"same-work-c{concurrency}",
            Done,
            runs=runs,
            conditions={"placement": placement, "work": work(concurrency, tokens=tokens), "force": guard.force},
        )
        for concurrency in CONCURRENCIES
    }
    if fresh:
        for part in parts.values():
            part.forget()
    if not all(part.is_complete for part in parts.values()):
        starts = {
            name: partial(start, paths.SAME_WORK_CHECKPOINT, placement=placement, rows=max(CONCURRENCIES))
            for name, start in _STARTS.items()
        }
        with running(starts, placement=placement) as running_now:
            for name, worker in running_now.items():
                say(f"warming up {name}")
                for concurrency in CONCURRENCIES:
                    worker.same_work(work(concurrency, tokens=_WARM_UP_TOKENS))
            for concurrency, part in parts.items():
                job = work(concurrency, tokens=tokens)
                part.measure(running_now, partial(_do, job), guard=guard)
    return {f"c{concurrency}": part.done for concurrency, part in parts.items()}


def _do(job: SameWork, worker: Worker) -> Done:
    return worker.same_work(job)
