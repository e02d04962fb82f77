"""Verdicts.

Each gate is judged over two times, since what gets worse late must not drown in good data from before:

- quality (perplexity, repetition): since the revision began to climb, because answers are the same at each weight, and
  within the step;
- speed and errors: within the step, because load changes with the weight, and within the last minutes (the fast guard).

A Fail of either is a Fail. Everything else is told from the first, which has more data.
"""

from collections.abc import Iterator
from dataclasses import dataclass

from diffusion_operator.api.rollout import GateName
from diffusion_operator.core.verdict import (
    Buckets,
    Confidence,
    Estimate,
    Limit,
    Measurement,
    Moments,
    Outcome,
    Proportion,
    Unreadable,
    assess,
    estimates,
    spent,
)

from . import wording
from .evidence import Crashes, Evidence, Quality
from .limits import GateLimit, GateLimits

# The chance that a revision that keeps its limits is ever rolled back on the way to 100 %, all gates and looks together.
FALSE_ALARM = 0.01
# The chance, per gate and step, that a revision that is above a limit by more than the margin passes.
FALSE_PASS = 0.05
# A container that ends by itself is never normal; one alone may have been the node's fault.
CRASHES_TO_FAIL = 2

_GATES = 5
_TIMES = 2
_ALPHA = FALSE_ALARM / _GATES / _TIMES


@dataclass(frozen=True, slots=True)
class Verdict:
    """What a gate says. `value` is in the unit of `limit`; None while there is nothing to tell."""

    gate: GateName
    outcome: Outcome
    message: str
    limit: float
    samples: float = 0.0
    value: float | None = None


@dataclass(frozen=True, slots=True)
class _Span:
    """A measurement over one of the two times, with its part of the false alarm."""

    when: str
    measurement: Measurement
    alpha: float


def judge(limits: GateLimits, evidence: Evidence) -> tuple[Verdict, ...]:
    """One verdict for each gate in force, and one on crashes."""
    found = [
        _judge(gate, limit, list(_spans(gate, evidence))) for gate, limit in limits.items() if gate != GateName.CRASHES
    ]
    return (*found, _judge_crashes(evidence.crashes))


def _spans(gate: GateName, evidence: Evidence) -> Iterator[_Span]:
    whole = evidence.earlier + evidence.quality
    step_alpha = spent(_ALPHA, index=evidence.step)
    first: Measurement
    second: Measurement
    match gate:
        case GateName.PERPLEXITY_RATIO:
            first, second = whole.pairs, evidence.quality.pairs
        case GateName.REPETITION_RATE:
            first, second = whole.repetition, evidence.quality.repetition
        case GateName.TIME_TO_FIRST_TOKEN:
            first, second = evidence.speed.first_token, evidence.guard.first_token
        case GateName.LATENCY_RATIO:
            first, second = evidence.speed.latency, evidence.guard.latency
        case _:
            first, second = evidence.speed.errors, evidence.guard.errors
    if gate in {GateName.PERPLEXITY_RATIO, GateName.REPETITION_RATE}:
        when = "since it began to climb" if evidence.earlier != Quality() else "in this step"
        yield _Span(when, first, spent(_ALPHA, index=evidence.run))
        yield _Span("in this step", second, step_alpha)
    else:
        yield _Span("in this step", first, step_alpha)
        yield _Span("in the last minutes", second, spent(step_alpha, index=evidence.window))


def _judge(gate: GateName, limit: GateLimit, spans: list[_Span]) -> Verdict:
    tests = []
    for span in spans:
        why = _fault(span.measurement)
        if why:
            return Verdict(gate, Outcome.ERROR, wording.no_data(gate, why), limit.highest)
        test = assess(_estimate(span, limit), _limit(gate, limit))
        tests.append((span.when, test))
    when, test = next((found for found in tests if found[1].outcome is Outcome.FAIL), tests[0])
    return Verdict(
        gate,
        test.outcome,
        wording.sentence(gate, test, when=when, limit=limit),
        limit.highest,
        samples=test.estimate.samples,
        value=test.estimate.shown if gate is GateName.TIME_TO_FIRST_TOKEN else test.estimate.value,
    )


def _fault(measurement: Measurement) -> str | None:
    match measurement:
        case Unreadable(why):
            return why
        case tuple():
            faults = (moments.fault() for bucket in measurement for moments in (bucket.diffusion, bucket.ar))
            return next((fault for fault in faults if fault), None)
        case _:
            return measurement.fault()


def _estimate(span: _Span, limit: GateLimit) -> Estimate:
    confidence = Confidence(fail=span.alpha, pass_=FALSE_PASS)
    match span.measurement:
        case Moments() as pairs:
            return estimates.perplexity_ratio(pairs, confidence=confidence, min_samples=limit.min_samples)
        case Proportion() as trials:
            return estimates.share(trials, confidence=confidence)
        case Buckets() as seconds:
            return estimates.share_above(seconds, limit=limit.highest, confidence=confidence)
        case tuple() as lengths:
            return estimates.latency_ratio(lengths, confidence=confidence, min_samples=limit.min_samples)
        case Unreadable():
            return Estimate(0.0)


def _limit(gate: GateName, limit: GateLimit) -> Limit:
    match gate:
        case GateName.PERPLEXITY_RATIO | GateName.LATENCY_RATIO:
            return Limit.of_ratio(limit.highest, min_samples=limit.min_samples)
        case GateName.TIME_TO_FIRST_TOKEN:
            return Limit.of_share(estimates.ALLOWED_ABOVE, min_samples=limit.min_samples)
        case _:
            return Limit.of_share(limit.highest, min_samples=limit.min_samples)


def _judge_crashes(crashes: Crashes) -> Verdict:
    outcome = Outcome.FAIL if crashes.count >= CRASHES_TO_FAIL else Outcome.PASS
    return Verdict(
        GateName.CRASHES,
        outcome,
        wording.crashes(crashes.count, out_of_memory=crashes.out_of_memory, outcome=outcome),
        CRASHES_TO_FAIL - 1,
        samples=crashes.count,
        value=crashes.count,
    )
