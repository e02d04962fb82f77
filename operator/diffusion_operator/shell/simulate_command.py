"""`diffusion-operator simulate`: what gates would do to a revision, without a cluster and without weeks."""

import argparse
import json
from dataclasses import asdict, replace
from math import ceil, inf, isfinite
from pathlib import Path

from diffusion_operator.core.gates import GateName
from diffusion_operator.core.rollout import Policy, policy, scored_share
from diffusion_operator.core.simulation import (
    SCENARIOS,
    Played,
    Scenario,
    Summary,
    Truth,
    play,
    summarise,
    truth,
)

from .manifest import ManifestError, read_manifest

DONE, BAD_INPUT = 0, 2

# A cluster looks every half minute. Looks cost time here; these are enough to see each step from inside.
_LOOKS_PER_STEP = 24
_DAY = 86_400.0
_MOST_DAYS_TOLD = 3650.0

DESCRIPTION = """\
Plays the rollout of a manifest on a model of traffic, in simulated time: the state machine and the statistics are those
that run in the cluster, the metrics are drawn. One run prints what happens when; several print how they end.
"""
EPILOG = (
    "scenarios:\n"
    + "".join(f"  {name:<10} {means}\n" for name, means in SCENARIOS.items())
    + """
examples:
  diffusion-operator simulate -f dm.yaml --scenario healthy
  diffusion-operator simulate -f dm.yaml --scenario regressed --perplexity-ratio 1.2 --requests-per-day 50000
  diffusion-operator simulate -f dm.yaml --scenario noisy --runs 200 --output json
"""
)


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The arguments of the subcommand."""
    add = parser.add_argument
    add(
        "-f",
        "--file",
        required=True,
        type=Path,
        metavar="FILE",
        help="manifest with a DiffusionModel; - is standard input",
    )
    add("--name", help="which DiffusionModel, when the file holds several")
    add("--scenario", choices=[scenario.value for scenario in Scenario], default="healthy", help="default healthy")
    add(
        "--requests-per-day",
        type=_positive,
        default=100_000.0,
        metavar="N",
        help="requests that are free to go to any arm; default 100000",
    )
    add("--runs", type=_whole, default=1, metavar="N", help="rollouts to play; default 1")
    add("--seed", type=int, default=0, metavar="N", help="the same seed plays the same rollouts; default 0")
    add("--days", type=_positive, metavar="DAYS", help="give up after; default: three times the shortest way to 100%%")
    add("--output", choices=("table", "json"), default="table", help="for people, or for programs; default table")
    effects = parser.add_argument_group("what is true of the revision, instead of the scenario's")
    effects.add_argument("--perplexity-ratio", type=_positive, metavar="RATIO", help="diffusion : AR")
    effects.add_argument(
        "--pair-deviation", type=_positive, metavar="NATS", help="of a pair's difference in NLL per token"
    )
    effects.add_argument("--repetition", type=_share, metavar="SHARE", help="of answers that repeat themselves, 0 to 1")
    effects.add_argument("--error-rate", type=_share, metavar="SHARE", help="of requests that fail, 0 to 1")
    effects.add_argument(
        "--first-token-p95", type=_positive, metavar="SECONDS", help="time to first token, 95th percentile"
    )
    effects.add_argument("--latency-ratio", type=_positive, metavar="RATIO", help="total latency, diffusion : AR")


def run(options: argparse.Namespace) -> tuple[int, str]:
    """Exit code, and what to print: to standard error when the code is BAD_INPUT."""
    try:
        name, spec = read_manifest(options.file, name=options.name)
    except ManifestError as error:
        return BAD_INPUT, f"{error}\n"
    rules = policy(spec)
    if rules.paused:
        return BAD_INPUT, f"{options.file}: spec.rollout.paused is true, so nothing would ever move: set it to false\n"
    scenario = Scenario(options.scenario)
    real = _truth(options, rules, scenario, scored_share(spec))
    look_seconds = max(1.0, rules.step_seconds / _LOOKS_PER_STEP)
    # A step takes a few looks, however short it is.
    days = options.days or 3 * len(rules.ladder) * max(rules.step_seconds, 4 * look_seconds) / _DAY
    try:
        played = [
            play(rules, real, look_seconds=look_seconds, most_days=days, seed=f"{options.seed}/{number}")
            for number in range(options.runs)
        ]
    except OverflowError:
        return (
            BAD_INPUT,
            f"{options.file}: a duration in it, or --days, goes beyond the year 9999, or a minSamples beyond any count: "
            "write less\n",
        )
    summary = summarise(played)
    notes = _notes(rules, real)
    if options.output == "json":
        made = _as_json(summary, real, scenario, look_seconds=look_seconds, days=days)
        return DONE, json.dumps(made | {"notes": notes}, indent=2) + "\n"
    heading = (
        f"{name}: {scenario.value}, {options.requests_per_day:,.0f} requests a day, looks every "
        f"{_duration(look_seconds)}, up to {days:g} days\n\n"
    )
    body = _timeline(played[0]) if options.runs == 1 else _table(summary)
    return DONE, heading + body + "".join(f"\nNote: {note}.\n" for note in notes)


def _notes(rules: Policy, real: Truth) -> list[str]:
    """What a reader of the result has to know."""
    if rules.initial_percent == 100:
        return [
            "spec.rollout.initialPercent is 100, which promotes a revision at once, before any gate is asked: write 5, say, "
            "to see what the gates would do"
        ]
    return _few_pairs(rules, real)


def _few_pairs(rules: Policy, real: Truth) -> list[str]:
    """Where the first step cannot end in time, whatever the revision is worth."""
    gate = rules.gates.get(GateName.PERPLEXITY_RATIO)
    at_most = real.requests_per_day * rules.initial_percent / 100 * rules.step_seconds / _DAY
    pairs = at_most * real.scored_share
    if gate is None or pairs >= gate.min_samples:
        return []
    days = rules.step_seconds / _DAY * gate.min_samples / pairs if pairs else inf
    remedy = (
        f"raise scoring.samplePercent to {ceil(100 * gate.min_samples / at_most)}"
        if at_most >= gate.min_samples
        else "raise scoring.samplePercent, and rollout.stepDuration or initialPercent"
    )
    return [
        f"the first step gives {pairs:,.0f} pairs in {_duration(rules.step_seconds)}, and perplexityRatio needs "
        f"{gate.min_samples:,} before it says anything, which takes {_days(days)}: {remedy}"
    ]


def _days(days: float) -> str:
    if days > _MOST_DAYS_TOLD:
        return "more than ten years"
    return f"{days:.1f} days" if days >= 0.1 else _duration(round(days * _DAY))


def _truth(options: argparse.Namespace, rules: Policy, scenario: Scenario, scored: float) -> Truth:
    made = truth(scenario, rules, requests_per_day=options.requests_per_day, scored_share=scored)
    set_ = {
        "perplexity_ratio": options.perplexity_ratio,
        "pair_deviation": options.pair_deviation,
        "repetition": options.repetition,
        "errors": options.error_rate,
        "first_token_p95": options.first_token_p95,
        "latency_ratio": options.latency_ratio,
    }
    return replace(made, **{field: value for field, value in set_.items() if value is not None})


def _as_json(
    summary: Summary, real: Truth, scenario: Scenario, *, look_seconds: float, days: float
) -> dict[str, object]:
    return {
        "scenario": scenario.value,
        "runs": summary.runs,
        "promoted": summary.promoted,
        "rolled_back": summary.rolled_back,
        "held": summary.held,
        "days": {"median": _rounded(summary.median_days), "p95": _rounded(summary.p95_days)},
        "rolled_back_by": summary.rolled_back_by,
        "rolled_back_at_percent": summary.rolled_back_at,
        "truth": asdict(real),
        "look_seconds": look_seconds,
        "most_days": days,
    }


def _timeline(played: Played) -> str:
    lines = [f"{'day':>7} {'weight':>6}  {'event':<15}"]
    lines += [f"{entry.days:7.2f} {entry.percent:5d}%  {entry.reason:<15} {entry.message}" for entry in played.timeline]
    lines.append(f"\n{_ENDS[played.result.value]} after {played.days:.1f} days.")
    return "\n".join(lines) + "\n"


_ENDS = {
    "promoted": "Promoted",
    "rolled_back": "Rolled back",
    "held": "Neither promoted nor rolled back",
}


def _table(summary: Summary) -> str:
    counts = (
        ("promoted", summary.promoted, ""),
        ("rolled back", summary.rolled_back, _because(summary)),
        ("held", summary.held, ""),
    )
    lines = [f"{name:<12} {count:6d} {count / summary.runs:7.1%}  {why}".rstrip() for name, count, why in counts]
    if summary.median_days is not None and summary.p95_days is not None:
        lines.append(f"\ndays until the end: median {summary.median_days:.1f}, 95% within {summary.p95_days:.1f}")
    return "\n".join(lines) + "\n"


def _because(summary: Summary) -> str:
    if not summary.rolled_back:
        return ""
    reasons = ", ".join(f"{count} by {reason}" for reason, count in summary.rolled_back_by.items())
    weights = ", ".join(f"{count} at {percent}%" for percent, count in summary.rolled_back_at.items())
    return f"{reasons}; {weights}"


def _rounded(days: float | None) -> float | None:
    return None if days is None else round(days, 3)


def _duration(seconds: float) -> str:
    return f"{seconds / 3600:g}h" if seconds >= 3600 else f"{seconds / 60:g}m" if seconds >= 60 else f"{seconds:g}s"


def _positive(text: str) -> float:
    value = _number(text)
    if not 1e-9 <= value <= 1e12:
        raise argparse.ArgumentTypeError(f"{text} is out of bounds: write a number from 1e-9 to 1e12")
    return value


def _share(text: str) -> float:
    value = _number(text)
    if not 0 <= value <= 1:
        raise argparse.ArgumentTypeError(f"{text} is no share: write a number from 0 to 1, such as 0.15")
    return value


def _whole(text: str) -> int:
    if not text.isdecimal() or len(text) > 9 or not 0 < int(text) <= 1_000_000:
        raise argparse.ArgumentTypeError(f"{text} is not a whole number from 1 to 1000000")
    return int(text)


def _number(text: str) -> float:
    try:
        value = float(text)
    except ValueError:
        value = float("nan")
    if not isfinite(value):
        raise argparse.ArgumentTypeError(f"{text!r} is not a number")
    return value
