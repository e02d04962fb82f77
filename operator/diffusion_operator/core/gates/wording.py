"""What a verdict says to people: the number, the limit, what it rests on, and what to do."""

from math import ceil, isfinite

from diffusion_operator.api.rollout import GateName
from diffusion_operator.core.verdict import Estimate, Outcome, Test

from .limits import GateLimit

_NOUN = {
    GateName.PERPLEXITY_RATIO: "pairs",
    GateName.REPETITION_RATE: "answers",
    GateName.TIME_TO_FIRST_TOKEN: "answers",
    GateName.LATENCY_RATIO: "answers on each arm",
    GateName.ERROR_RATE: "requests",
}
_WHERE_DATA_COMES_FROM = {
    GateName.PERPLEXITY_RATIO: "the AR pods, which score pairs",
    GateName.REPETITION_RATE: "the gateways",
    GateName.TIME_TO_FIRST_TOKEN: "the gateways",
    GateName.LATENCY_RATIO: "the gateways and the AR pods",
    GateName.ERROR_RATE: "the gateways",
}


def no_data(gate: GateName, why: str) -> str:
    """For an Error."""
    return f"No data: {why}. The weight stays and no time counts. Look at Prometheus and at {_WHERE_DATA_COMES_FROM[gate]}."


def sentence(gate: GateName, test: Test, *, when: str, limit: GateLimit) -> str:
    """For a verdict that rests on samples."""
    estimate = test.estimate
    samples = f"{_count(estimate.samples)} {_NOUN[gate]} {when}"
    if estimate.value is None or estimate.samples < limit.min_samples:
        share = ", raise scoring.samplePercent" if gate is GateName.PERPLEXITY_RATIO else ""
        seen = f", so far {_value(gate, estimate, limit)}" if estimate.value is not None else ""
        return (
            f"{samples}; {_count(limit.min_samples)} are needed before a verdict (minSamples){seen}. "
            f"Wait, send more requests{share}, or look at {_WHERE_DATA_COMES_FROM[gate]}."
        )
    value = f"{_value(gate, estimate, limit)} over {samples}"
    match test.outcome:
        case Outcome.FAIL:
            return f"{value}: surely {_bound(gate, estimate.lower)} or more, and the limit is {_allowed(gate, limit)}."
        case Outcome.PASS:
            return f"{value}: surely no more than {_bound(gate, estimate.upper)}; the limit is {_allowed(gate, limit)}."
        case _:
            more = f" About {_count(test.missing)} more would tell." if test.missing else ""
            return (
                f"{value}: between {_bound(gate, estimate.lower)} and {_bound(gate, estimate.upper)}, and the limit is "
                f"{_allowed(gate, limit)}.{more}"
            )


def crashes(count: int, *, out_of_memory: int, outcome: Outcome) -> str:
    """For the guard on crashes."""
    memory = f", {out_of_memory} of them for lack of memory: raise resources.memory" if out_of_memory else ""
    if outcome is Outcome.FAIL:
        return f"Containers ended by themselves {count} times in the last minutes{memory}. Look at `kubectl logs --previous`."
    return f"Containers ended by themselves {count} times in the last minutes{memory}."


def _value(gate: GateName, estimate: Estimate, limit: GateLimit) -> str:
    value = estimate.value or 0.0
    match gate:
        case GateName.PERPLEXITY_RATIO | GateName.LATENCY_RATIO:
            return f"ratio {_ratio(value)}"
        case GateName.TIME_TO_FIRST_TOKEN:
            return f"p95 about {_seconds(estimate.shown or 0.0)}, {value:.2%} longer than {_seconds(limit.highest)}"
        case _:
            return f"share {value:.2%}"


def _bound(gate: GateName, bound: float) -> str:
    match gate:
        case GateName.PERPLEXITY_RATIO | GateName.LATENCY_RATIO:
            return _ratio(bound) if isfinite(bound) else "anything"
        case _:
            return f"{max(0.0, bound):.2%}"


def _allowed(gate: GateName, limit: GateLimit) -> str:
    match gate:
        case GateName.PERPLEXITY_RATIO | GateName.LATENCY_RATIO:
            return f"{limit.highest:g}"
        case GateName.TIME_TO_FIRST_TOKEN:
            return f"5% longer than {_seconds(limit.highest)}"
        case _:
            return f"{limit.highest:.2%}"


def _ratio(value: float) -> str:
    return f"{value:.3f}" if value < 1e4 else f"{value:.3g}"


def _seconds(value: float) -> str:
    return f"{value * 1000:.0f} ms" if value < 10 else f"{value:.1f} s"


def _count(samples: float | None) -> str:
    return f"{ceil(samples or 0):,}"
