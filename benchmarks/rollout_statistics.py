"""What the gates' statistics are worth: `python -m benchmarks.rollout_statistics` prints the tables of docs/rollout-statistics.md.

Minutes on one core. The rollouts are those of `diffusion-operator simulate`: the real state machine on drawn metrics.
"""

import argparse
from collections.abc import Callable, Iterator
from dataclasses import replace
from math import log
from random import Random
from statistics import median

from diffusion_operator.api.models import DiffusionModelSpec
from diffusion_operator.core.gates import Evidence, GateLimits, GateName, Quality, judge
from diffusion_operator.core.rollout import policy, scored_share
from diffusion_operator.core.simulation import Played, Scenario, Truth, percentile, play, summarise, truth
from diffusion_operator.core.simulation.draws import binomial, moments
from diffusion_operator.core.verdict import Moments, Outcome, Proportion

SPEC = DiffusionModelSpec.model_validate(
    {"model": {"source": "file:///diffusion"}, "fallback": {"model": {"source": "file:///ar"}}}
)
POLICY = policy(SPEC)
LOOKS_PER_STEP = 6
BATCH = 10
TRAFFIC = (10_000, 100_000, 1_000_000)
WEIGHT = 0.05


def main() -> None:
    """Print the tables, row by row."""
    tables = {"false-alarms": _false_alarms, "detection": _detection, "rollouts": _rollouts}
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument(
        "--runs", type=int, default=1000, help="repetitions of the first case; others have fewer; default 1000"
    )
    parser.add_argument("--table", choices=tables, action="append", help="only this one; may be repeated; default all")
    options = parser.parse_args()
    for name in options.table or tables:
        for line in tables[name](options.runs):
            print(line, flush=True)  # noqa: T201
        print()  # noqa: T201


def _false_alarms(runs: int) -> Iterator[str]:
    yield "| revision | requests a day | rollouts | rolled back | 95% upper bound | promoted | days: median, p95 |"
    yield "|---|---|---|---|---|---|---|"
    healthy = _truth(100_000)
    cases: tuple[tuple[str, Truth, int], ...] = (
        ("equally good (ratio 1.0)", healthy, runs),
        ("equally good, much traffic", _truth(1_000_000), runs // 2),
        ("10% more perplexity, 12% repetition", replace(healthy, perplexity_ratio=1.10, repetition=0.12), runs // 2),
        ("exactly at the perplexity limit (1.15)", replace(healthy, perplexity_ratio=1.15), runs // 4),
        ("exactly at the repetition limit (15%)", replace(healthy, repetition=0.15), runs // 4),
        ("exactly at the latency ratio's limit (0.30)", replace(healthy, latency_ratio=0.30), runs // 4),
        ("exactly at the first token's limit (p95 500 ms)", replace(healthy, first_token_p95=0.5), runs // 4),
        ("exactly at the error limit (1%)", replace(healthy, errors=0.01), runs // 4),
    )
    for name, real, count in cases:
        found = summarise([_play(real, number, most_days=60) for number in range(count)])
        bound = _upper_bound(found.rolled_back, count)
        days = f"{found.median_days:.1f}, {found.p95_days:.1f}" if found.median_days and found.p95_days else "–"
        yield (
            f"| {name} | {real.requests_per_day:,.0f} | {count} | {found.rolled_back} | {bound:.1%} | "
            f"{found.promoted} | {days} |"
        )


def _detection(runs: int) -> Iterator[str]:
    runs = min(runs, 300)
    cases: tuple[tuple[str, GateName, bool, Callable[[Random], Moments | Proportion]], ...] = (
        *(
            (f"perplexity +{ratio - 1:.0%}", GateName.PERPLEXITY_RATIO, True, _pairs(ratio))
            for ratio in (1.2, 1.3, 1.5)
        ),
        ("repetition 5 → 20%", GateName.REPETITION_RATE, False, _repeating(0.20)),
    )
    columns = " | ".join(f"{n:,}/day" for n in TRAFFIC)
    yield f"| regression | samples: median, p95 | scored | {columns} |"
    yield "|---|---|---|" + "---|" * len(TRAFFIC)
    for name, gate, is_scored, draw in cases:
        needed = sorted(_samples_until_fail(gate, draw, seed=f"{name}/{number}") for number in range(runs))
        p95 = percentile(needed, 95) or 0
        for share in (0.05, 1.0) if is_scored else (1.0,):
            days = [f"{_time(median(needed) / n / WEIGHT / share)}, {_time(p95 / n / WEIGHT / share)}" for n in TRAFFIC]
            what = f"{share:.0%} of answers" if is_scored else "every answer"
            yield f"| {name} | {median(needed):,.0f}, {p95:,.0f} | {what} | {' | '.join(days)} |"


def _rollouts(runs: int) -> Iterator[str]:
    runs = min(runs, 100)
    yield "| revision | requests a day | rollouts | rolled back | at weight | by | days: median, p95 |"
    yield "|---|---|---|---|---|---|---|"
    for requests in TRAFFIC:
        healthy = _truth(requests)
        cases = {
            **{f"perplexity +{r - 1:.0%}": replace(healthy, perplexity_ratio=r) for r in (1.2, 1.3, 1.5)},
            "repetition 20%": replace(healthy, repetition=0.20),
        }
        for name, real in cases.items():
            played = [_play(real, number, most_days=60) for number in range(runs)]
            found = summarise(played)
            days = f"{found.median_days:.1f}, {found.p95_days:.1f}" if found.median_days and found.p95_days else "–"
            weights = ", ".join(f"{percent}%: {count}" for percent, count in found.rolled_back_at.items())
            by = ", ".join(found.rolled_back_by)
            yield f"| {name} | {requests:,} | {runs} | {found.rolled_back} | {weights} | {by} | {days} |"


def _samples_until_fail(gate: GateName, draw: Callable[[Random], Moments | Proportion], *, seed: str) -> float:
    random = Random(seed)
    limits: GateLimits = {gate: POLICY.gates[gate]}
    seen = draw(random)
    for _ in range(20_000):
        quality = Quality(pairs=seen) if isinstance(seen, Moments) else Quality(repetition=seen)
        if judge(limits, Evidence(quality=quality))[0].outcome is Outcome.FAIL:
            break
        more = draw(random)
        seen = seen + more  # type: ignore[operator]
    return seen.count


def _pairs(ratio: float) -> Callable[[Random], Moments]:
    deviation = _truth(1).pair_deviation
    return lambda random: moments(random, BATCH, mean=log(ratio), deviation=deviation)


def _repeating(share: float) -> Callable[[Random], Proportion]:
    return lambda random: Proportion(BATCH, binomial(random, BATCH, share))


def _truth(requests: float) -> Truth:
    return truth(Scenario.HEALTHY, POLICY, requests_per_day=requests, scored_share=scored_share(SPEC))


def _play(real: Truth, number: int, *, most_days: float) -> Played:
    return play(POLICY, real, look_seconds=POLICY.step_seconds / LOOKS_PER_STEP, most_days=most_days, seed=f"{number}")


def _time(days: float) -> str:
    return f"{days:.0f} d" if days >= 10 else f"{days:.1f} d" if days >= 1 else f"{days * 24:.1f} h"


def _upper_bound(events: int, count: int) -> float:
    """Clopper and Pearson's, one-sided 95 %, by bisection on the binomial distribution."""
    low, high = events / count, 1.0
    for _ in range(60):
        middle = (low + high) / 2
        term = total = (1 - middle) ** count
        for k in range(events):
            term *= (count - k) / (k + 1) * middle / (1 - middle)
            total += term
        low, high = (middle, high) if total > 0.05 else (low, middle)
    return high


if __name__ == "__main__":
    main()
