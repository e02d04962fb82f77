"""Real load: users come when they like, ask for answers of different lengths, and an answer ends when it is done."""

import random
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial

from benchmarks import paths
from benchmarks.load import LoadGuard
from benchmarks.measure import Tally, percentile
from benchmarks.peers import contestants
from benchmarks.peers.placement import Placement
from benchmarks.peers.rounds import Part, Rounds
from benchmarks.peers.running import running
from benchmarks.peers.work import Answers, RealLoad, Request, Server
from benchmarks.progress import say
from benchmarks.wishes import wish

SHORTEST, LONGEST = 16, 256  # limits of the answers, in tokens
PERCENTS = (50, 95, 99)
_WARM_UP_REQUESTS = 16
_SEED = 7
_STARTS: dict[str, Callable[..., Server]] = {
    "ours": contestants.start_served,
    "vllm": contestants.start_vllm,
    "transformers": contestants.start_transformers,
}


@dataclass(frozen=True)
class Traffic:
    """Who comes when."""

    requests: int = 64
    rate: float = 16.0  # per second: more than anyone here serves, so that the throughput shows, and not the rate
    rows: int = 8  # at once, for everyone

    def load(self) -> RealLoad:
        """Poisson arrivals of requests whose limits are spread evenly over SHORTEST to LONGEST; the same each time."""
        rng = random.Random(_SEED)
        step = (LONGEST - SHORTEST) / max(1, self.requests - 1)
        limits = [SHORTEST + round(number * step) for number in range(self.requests)]
        rng.shuffle(limits)
        at, requests = 0.0, []
        for limit in limits:
            requests.append(Request(at=at, content=wish(rng), max_tokens=limit))
            at += rng.expovariate(self.rate)
        return RealLoad(requests=tuple(requests))


@dataclass(frozen=True)
class Service:
    """What one competitor gave; each tally is over its runs."""

    tokens_per_second: Tally
    tokens: Tally
    first_block_seconds: Mapping[str, Tally]  # by p50, p95, p99
    total_seconds: Mapping[str, Tally]

    @classmethod
    def of(cls, load: RealLoad, runs: list[Answers]) -> "Service":
        """Summarize."""
        return cls(
            tokens_per_second=Tally.of([tokens_per_second(load, run) for run in runs]),
            tokens=Tally.of([sum(answer.tokens for answer in run.answers) for run in runs]),
            first_block_seconds=_percentiles([[answer.first_block_seconds for answer in run.answers] for run in runs]),
            total_seconds=_percentiles([[answer.total_seconds for answer in run.answers] for run in runs]),
        )


def tokens_per_second(load: RealLoad, run: Answers) -> float:
    """Output tokens from the first arrival to the last end."""
    pairs = zip(load.requests, run.answers, strict=True)
    last = max(request.at + answer.total_seconds for request, answer in pairs)
    return sum(answer.tokens for answer in run.answers) / (last - load.requests[0].at)


def measure(*, placement: Placement, traffic: Traffic, runs: int, fresh: bool, guard: LoadGuard) -> Rounds[Answers]:
    """All rounds."""
    load = traffic.load()
    conditions = {"placement": placement, "traffic": traffic, "load": load, "force": guard.force}
    part = Part("real-load", Answers, runs=runs, conditions=conditions)
    if fresh:
        part.forget()
    if not part.is_complete:
        starts = {
            name: partial(start, paths.STORYTELLER, placement=placement, rows=traffic.rows)
            for name, start in _STARTS.items()
        }
        with running(starts, placement=placement) as running_now:
            for name, server in running_now.items():
                say(f"warming up {name}")
                server.real_load(RealLoad(requests=load.requests[:_WARM_UP_REQUESTS]))
            part.measure(running_now, lambda server: server.real_load(load), guard=guard)
    return part.done


def _percentiles(runs: list[list[float]]) -> dict[str, Tally]:
    return {f"p{percent}": Tally.of([percentile(run, percent) for run in runs]) for percent in PERCENTS}
