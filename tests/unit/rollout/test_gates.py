"""What the gates say of what was measured."""

from dataclasses import replace
from math import inf, nan

import pytest
from diffusion_operator.core.gates import Crashes, Evidence, GateName, Quality, Speed, Verdict, judge
from diffusion_operator.core.verdict import Buckets, LengthBucket, Moments, Outcome, Proportion, Unreadable

from .builders import ALL_GATES, first_tokens, pairs, proportion


def lengths(ratio: float, *, count: float = 400, ar_count: float = 4000) -> tuple[LengthBucket, ...]:
    def values(n: float, mean: float) -> Moments:
        return Moments(n, n * mean, n * mean * mean * 1.09)

    return tuple(LengthBucket(values(count, ratio * mean), values(ar_count, mean)) for mean in (2.0, 9.0))


GOOD = Evidence(
    quality=Quality(pairs(0.0), proportion(0.03)),
    speed=Speed(first_tokens(0.01), lengths(0.2), proportion(0.001)),
    guard=Speed(first_tokens(0.0, of=20), lengths(0.2, count=3, ar_count=30), proportion(0.0, of=20)),
)


def verdict(gate: GateName, evidence: Evidence) -> Verdict:
    return next(one for one in judge(ALL_GATES, evidence) if one.gate is gate)


def with_quality(**parts: object) -> Evidence:
    return replace(GOOD, quality=replace(GOOD.quality, **parts))  # type: ignore[arg-type]


def with_speed(**parts: object) -> Evidence:
    return replace(GOOD, speed=replace(GOOD.speed, **parts))  # type: ignore[arg-type]


def with_guard(**parts: object) -> Evidence:
    return replace(GOOD, guard=replace(GOOD.guard, **parts))  # type: ignore[arg-type]


def test_a_good_revision_passes_every_gate() -> None:
    assert {one.outcome for one in judge(ALL_GATES, GOOD)} == {Outcome.PASS}


TABLE = {
    "perplexity far above its limit fails": (GateName.PERPLEXITY_RATIO, with_quality(pairs=pairs(0.3)), Outcome.FAIL),
    "perplexity around its limit is open": (
        GateName.PERPLEXITY_RATIO,
        with_quality(pairs=pairs(0.14, count=210)),
        Outcome.INCONCLUSIVE,
    ),
    "few pairs are no verdict, however bad": (
        GateName.PERPLEXITY_RATIO,
        with_quality(pairs=pairs(3.0, count=199)),
        Outcome.INCONCLUSIVE,
    ),
    "a NaN is an error": (GateName.PERPLEXITY_RATIO, with_quality(pairs=Moments(300, nan, 1)), Outcome.ERROR),
    "an infinite sum is an error": (GateName.PERPLEXITY_RATIO, with_quality(pairs=Moments(300, 1, inf)), Outcome.ERROR),
    "sums that no values have are an error": (
        GateName.PERPLEXITY_RATIO,
        with_quality(pairs=Moments(300, 300, 1)),
        Outcome.ERROR,
    ),
    "an outage is an error": (
        GateName.PERPLEXITY_RATIO,
        with_quality(pairs=Unreadable("the scorer is down")),
        Outcome.ERROR,
    ),
    "no pairs at all are too few": (GateName.PERPLEXITY_RATIO, with_quality(pairs=Moments()), Outcome.INCONCLUSIVE),
    "answers that repeat themselves fail": (
        GateName.REPETITION_RATE,
        with_quality(repetition=proportion(0.3)),
        Outcome.FAIL,
    ),
    "more events than trials are an error": (
        GateName.REPETITION_RATE,
        with_quality(repetition=Proportion(300, 301)),
        Outcome.ERROR,
    ),
    "a slow first token fails": (GateName.TIME_TO_FIRST_TOKEN, with_speed(first_token=first_tokens(0.2)), Outcome.FAIL),
    "a histogram that falls is an error": (
        GateName.TIME_TO_FIRST_TOKEN,
        with_speed(first_token=Buckets((0.5, inf), (10, 9))),
        Outcome.ERROR,
    ),
    "a limit in the middle of a bucket neither passes nor fails on that bucket": (
        GateName.TIME_TO_FIRST_TOKEN,
        with_speed(first_token=Buckets((0.1, 1.0, inf), (0, 2000, 2000))),
        Outcome.INCONCLUSIVE,
    ),
    "a slow revision fails at equal lengths": (
        GateName.LATENCY_RATIO,
        with_speed(latency=lengths(0.5)),
        Outcome.FAIL,
    ),
    "without answers of AR there is nothing to compare": (
        GateName.LATENCY_RATIO,
        with_speed(latency=lengths(0.5, ar_count=0)),
        Outcome.INCONCLUSIVE,
    ),
    "two slow answers of AR prove nothing of a length, however many it gave of others": (
        GateName.LATENCY_RATIO,
        with_speed(
            latency=(
                LengthBucket(Moments(100, 20, 5), Moments(5000, 5000, 6000)),
                LengthBucket(Moments(5000, 25_000, 130_000), Moments(2, 18, 162)),
            )
        ),
        Outcome.INCONCLUSIVE,
    ),
    "errors fail": (GateName.ERROR_RATE, with_speed(errors=proportion(0.03)), Outcome.FAIL),
    "a burst of errors fails before the step notices": (
        GateName.ERROR_RATE,
        with_guard(errors=proportion(0.5, of=60)),
        Outcome.FAIL,
    ),
    "a burst of few requests waits": (GateName.ERROR_RATE, with_guard(errors=proportion(1.0, of=40)), Outcome.PASS),
    "one crash passes": (GateName.CRASHES, replace(GOOD, crashes=Crashes(1)), Outcome.PASS),
    "two crashes fail": (GateName.CRASHES, replace(GOOD, crashes=Crashes(2)), Outcome.FAIL),
}


@pytest.mark.parametrize(("gate", "evidence", "outcome"), TABLE.values(), ids=TABLE.keys())
def test_verdict(gate: GateName, evidence: Evidence, outcome: Outcome) -> None:
    assert verdict(gate, evidence).outcome is outcome


def test_what_gets_worse_late_does_not_drown_in_what_was_good_before() -> None:
    earlier = Quality(pairs(0.0, count=50_000), proportion(0.02, of=50_000))
    late = replace(GOOD, earlier=earlier, quality=Quality(pairs(0.4), proportion(0.4)), step=10)
    assert verdict(GateName.PERPLEXITY_RATIO, late).outcome is Outcome.FAIL
    assert verdict(GateName.REPETITION_RATE, late).outcome is Outcome.FAIL
    assert "in this step" in verdict(GateName.PERPLEXITY_RATIO, late).message


def test_earlier_steps_spare_a_step_from_waiting_for_its_own_pairs() -> None:
    later = replace(GOOD, earlier=Quality(pairs(0.0), proportion(0.02)), quality=Quality(pairs(0.0, count=3)))
    assert verdict(GateName.PERPLEXITY_RATIO, later).outcome is Outcome.PASS


def test_a_later_step_needs_more_proof_to_fail() -> None:
    samples = {
        step: next(
            n
            for n in range(200, 20_000, 20)
            if verdict(
                GateName.ERROR_RATE, replace(with_speed(errors=proportion(0.03, of=float(n))), step=step)
            ).outcome
            is Outcome.FAIL
        )
        for step in (0, 19)
    }
    assert samples[0] < samples[19] < 3 * samples[0]


SENTENCES = {
    "too few": (
        GateName.PERPLEXITY_RATIO,
        with_quality(pairs=pairs(0.1, count=12)),
        ["12 pairs", "200 are needed", "so far ratio 1.105"],
    ),
    "fail": (
        GateName.REPETITION_RATE,
        with_quality(repetition=proportion(0.3)),
        ["30.00%", "limit is 15.00%", "surely"],
    ),
    "open": (GateName.PERPLEXITY_RATIO, with_quality(pairs=pairs(0.13, count=210)), ["between", "more would tell"]),
    "error": (GateName.LATENCY_RATIO, with_speed(latency=Unreadable("two series answered")), ["two series", "No data"]),
    "seconds": (GateName.TIME_TO_FIRST_TOKEN, with_speed(first_token=first_tokens(0.2)), ["p95 about", "500 ms"]),
    "memory": (GateName.CRASHES, replace(GOOD, crashes=Crashes(2, 1)), ["lack of memory", "resources.memory"]),
}


@pytest.mark.parametrize(("gate", "evidence", "says"), SENTENCES.values(), ids=SENTENCES.keys())
def test_a_verdict_says_what_it_rests_on(gate: GateName, evidence: Evidence, says: list[str]) -> None:
    message = verdict(gate, evidence).message
    assert all(part in message for part in says), message
    assert len(message) < 512


def test_a_gate_that_is_not_in_force_says_nothing() -> None:
    assert [one.gate for one in judge({}, GOOD)] == [GateName.CRASHES]


def test_histograms_of_different_bounds_are_not_added() -> None:
    with pytest.raises(ValueError, match="cannot be added"):
        Buckets((1.0, inf), (1, 2)) + Buckets((2.0, inf), (1, 2))
    assert Buckets() + Buckets((1.0, inf), (1, 2)) == Buckets((1.0, inf), (1, 2))
