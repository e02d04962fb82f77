"""The statistics: what holds for any counts, against independent computations, and over many looks."""

from itertools import pairwise
from math import exp, inf, isfinite, log, pi, sqrt

import numpy as np
import pytest
from diffusion_operator.core.gates import Evidence, Quality, Speed, judge
from diffusion_operator.core.verdict import (
    Buckets,
    Confidence,
    LengthBucket,
    Limit,
    Moments,
    Outcome,
    assess,
    estimates,
)
from diffusion_operator.core.verdict.measurements import Proportion
from diffusion_operator.core.verdict.sequences import mean_radius, proportion_interval, spent
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.unit.rollout.builders import ALL_GATES

CONFIDENCE = Confidence(fail=0.001, pass_=0.05)
counts = st.integers(1, 100_000)


@given(count=counts, data=st.data(), alpha=st.floats(1e-8, 0.2))
@settings(max_examples=100, deadline=None)
def test_a_share_lies_between_its_bounds(count: int, data: st.DataObject, alpha: float) -> None:
    events = data.draw(st.integers(0, count))
    lower, upper = proportion_interval(events=events, count=count, alpha_below=alpha, alpha_above=alpha)
    assert 0 <= lower <= events / count <= upper <= 1
    wider = proportion_interval(events=events, count=count, alpha_below=alpha / 10, alpha_above=alpha / 10)
    assert wider[0] <= lower
    assert upper <= wider[1]


@given(count=counts, data=st.data())
@settings(max_examples=100, deadline=None)
def test_a_share_and_its_complement_mirror_each_other(count: int, data: st.DataObject) -> None:
    events = data.draw(st.integers(0, count))
    lower, upper = proportion_interval(events=events, count=count, alpha_below=0.01, alpha_above=0.01)
    mirrored = proportion_interval(events=count - events, count=count, alpha_below=0.01, alpha_above=0.01)
    assert mirrored == pytest.approx((1 - upper, 1 - lower), abs=1e-9)


@pytest.mark.parametrize(("events", "count"), [(0, 40), (3, 40), (20, 40), (40, 40), (30, 300), (2, 700)])
def test_the_mixture_is_the_integral_that_it_stands_for(events: int, count: int) -> None:
    # p = sin²(t) turns the arcsine prior into a uniform one on [0, π/2]: the midpoint rule converges fast.
    angles = (np.arange(20_000) + 0.5) * (pi / 2 / 20_000)
    p = np.sin(angles) ** 2
    evidence = log(float(np.mean(p**events * (1 - p) ** (count - events))))
    for bound, alpha in zip(
        proportion_interval(events=events, count=count, alpha_below=0.01, alpha_above=0.05), (0.01, 0.05), strict=True
    ):
        if 0 < bound < 1:
            likelihood = events * log(bound) + (count - events) * log(1 - bound)
            assert evidence - likelihood == pytest.approx(log(1 / alpha), abs=1e-6)


@pytest.mark.parametrize("count", [50, 200, 5000])
def test_the_radius_is_where_the_normal_mixture_reaches_its_threshold(count: int) -> None:
    alpha, variance, tuned_for = 0.01, 4.0, 200
    precision = (-2 * log(alpha) + log(-2 * log(alpha)) + 1) / tuned_for
    total = mean_radius(count=count, variance=variance, alpha=alpha, tuned_for=tuned_for) * count / sqrt(variance)
    # The mixture of exp(λS - λ²n/2) over λ ~ N(0, precision), by the midpoint rule.
    width = sqrt(precision)
    slopes = (np.arange(200_000) + 0.5) / 200_000 * 20 * width - 10 * width
    prior = np.exp(-(slopes**2) / (2 * precision)) / sqrt(2 * pi * precision) * (20 * width / 200_000)
    assert float(np.sum(np.exp(slopes * total - slopes**2 * count / 2) * prior)) == pytest.approx(1 / alpha, rel=1e-4)


def test_what_is_spent_is_never_more_than_there_is() -> None:
    shares = [spent(0.01, index=index) for index in range(10_000)]
    assert all(one > next_ for one, next_ in pairwise(shares))
    assert 0.00999 < sum(shares) < 0.01


@pytest.mark.parametrize("p", [0.01, 0.15])
def test_a_share_at_its_limit_is_rarely_over_it_however_often_one_looks(p: float) -> None:
    random = np.random.default_rng(1)
    alpha, looks, runs = 0.05, 400, 400
    events = np.cumsum(random.binomial(25, p, size=(runs, looks)), axis=1)
    alarms = 0
    for run in events:
        # Only where the share is high can the lower bound be over p.
        high = [look for look in range(looks) if run[look] > p * 25 * (look + 1)]
        alarms += any(
            proportion_interval(events=float(run[i]), count=25.0 * (i + 1), alpha_below=alpha, alpha_above=alpha)[0] > p
            for i in high[::4]
        )
    assert alarms / runs <= alpha


@pytest.mark.parametrize("shape", ["normal", "skewed", "heavy"])
def test_a_mean_at_its_limit_is_rarely_over_it_however_often_one_looks(shape: str) -> None:
    random = np.random.default_rng(2)
    runs, length, alpha = 1000, 2000, 0.05
    draw = {
        "normal": lambda: random.normal(0, 1, (runs, length)),
        "skewed": lambda: random.exponential(1, (runs, length)) - 1,
        "heavy": lambda: random.standard_t(4, (runs, length)),
    }[shape]
    values = draw()
    n = np.arange(1, length + 1)
    means = np.cumsum(values, axis=1) / n
    variances = np.cumsum(values**2, axis=1) / n - means**2
    radius = np.array([mean_radius(count=float(i), variance=1.0, alpha=alpha, tuned_for=200) for i in n])
    outside = means > radius * np.sqrt(variances)
    assert outside[:, estimates.FEWEST_FOR_A_MEAN :].any(axis=1).mean() <= alpha


@given(
    count=st.floats(200, 1e6),
    mean=st.floats(-1, 1),
    deviation=st.floats(0.01, 3),
    limit=st.floats(1.01, 2),
)
@settings(max_examples=100, deadline=None)
def test_verdicts_agree_with_their_bounds(count: float, mean: float, deviation: float, limit: float) -> None:
    pairs = Moments(count, count * mean, count * mean * mean + (count - 1) * deviation**2)
    estimate = estimates.perplexity_ratio(pairs, confidence=CONFIDENCE, min_samples=200)
    assert estimate.lower <= exp(mean) * (1 + 1e-9)
    assert estimate.upper >= exp(mean) * (1 - 1e-9)
    outcome = assess(estimate, Limit.of_ratio(limit, min_samples=200)).outcome
    if outcome is Outcome.FAIL:
        assert mean > log(limit)
    if outcome is Outcome.PASS:
        assert mean < log(limit * 1.05)


def test_a_revision_exactly_at_its_limit_passes_in_the_end() -> None:
    for limit, estimate in (
        (
            Limit.of_ratio(1.15, min_samples=200),
            estimates.perplexity_ratio(
                Moments(20_000, 20_000 * log(1.15), 20_000 * (log(1.15) ** 2 + 0.25)),
                confidence=CONFIDENCE,
                min_samples=200,
            ),
        ),
        (
            Limit.of_share(0.15, min_samples=200),
            estimates.share(Proportion(20_000, 3_000), confidence=CONFIDENCE),
        ),
    ):
        assert assess(estimate, limit).outcome is Outcome.PASS


@given(st.lists(st.floats(0.001, 10), min_size=1, max_size=200), st.sampled_from([0.05, 0.1, 0.3, 0.5, 1.0, 7.0]))
@settings(max_examples=100, deadline=None)
def test_a_histogram_counts_what_is_above_a_limit(values: list[float], limit: float) -> None:
    bounds = (0.1, 0.5, 1.0, inf)
    buckets = Buckets(bounds, tuple(float(sum(value <= bound for value in values)) for bound in bounds))
    surely, possibly = buckets.above(limit)
    truly = sum(value > limit for value in values)
    assert surely.events <= truly <= possibly.events
    if limit in bounds:
        assert surely == possibly


@given(
    means=st.lists(
        st.tuples(st.floats(0.5, 20), st.integers(100, 3000), st.integers(100, 3000)), min_size=1, max_size=5
    ),
    ratio=st.floats(0.05, 3),
)
@settings(max_examples=50, deadline=None)
def test_lengths_do_not_bias_the_latency_ratio(means: list[tuple[float, int, int]], ratio: float) -> None:
    buckets = tuple(
        LengthBucket(
            diffusion=Moments(n, n * ratio * mean, n * (ratio * mean) ** 2 * 1.04),
            ar=Moments(m, m * mean, m * mean**2 * 1.04),
        )
        for mean, n, m in means
    )
    estimate = estimates.latency_ratio(buckets, confidence=CONFIDENCE, min_samples=200)
    assert estimate.value == pytest.approx(ratio)
    assert estimate.lower <= ratio <= estimate.upper


def test_the_latency_ratio_at_its_limit_is_rarely_over_it_however_often_one_looks() -> None:
    random = np.random.default_rng(3)
    runs, looks, alarms = 200, 40, 0
    for _ in range(runs):
        # [arm, length, look]: 20 answers of each per look, log-normal around 0.3 and 1 times the length's mean.
        values = random.lognormal(-0.125, 0.5, size=(2, 2, looks, 20)) * np.array([2.0, 9.0])[None, :, None, None]
        values[0] *= 0.3
        totals, squares = values.sum(-1).cumsum(-1), (values**2).sum(-1).cumsum(-1)
        for look in range(1, looks):
            buckets = tuple(
                LengthBucket(
                    *(
                        Moments(20.0 * (look + 1), totals[arm, length, look], squares[arm, length, look])
                        for arm in (0, 1)
                    )
                )
                for length in (0, 1)
            )
            estimate = estimates.latency_ratio(buckets, confidence=Confidence(0.05, 0.05), min_samples=200)
            if estimate.lower > 0.3:
                alarms += 1
                break
    assert alarms / runs <= 0.05


def test_the_latency_ratio_at_its_limit_is_rarely_over_it_where_ar_answers_other_lengths_than_diffusion() -> None:
    # AR gets the short answers by rule, and a long one now and then; nine of ten of diffusion's are long.
    random = np.random.default_rng(5)
    runs, looks, alarms = 300, 30, 0
    shares, lengths = (np.array([[0.05, 0.05, 0.9], [0.9, 0.05, 0.05]]), np.array([2.0, 6.0, 15.0]))
    for _ in range(runs):
        sums = np.zeros((2, 3, 3))  # [arm, length, (count, Σ, Σ²)]
        for _ in range(looks):
            for arm, ratio in enumerate((0.3, 1.0)):
                for length, count in enumerate(random.multinomial(50, shares[arm])):
                    values = random.lognormal(-0.125, 0.5, size=count) * lengths[length] * ratio
                    sums[arm, length] += (count, values.sum(), (values**2).sum())
            buckets = tuple(LengthBucket(Moments(*sums[0, length]), Moments(*sums[1, length])) for length in range(3))
            estimate = estimates.latency_ratio(buckets, confidence=Confidence(0.001, 0.05), min_samples=200)
            if assess(estimate, Limit.of_ratio(0.3, min_samples=200)).outcome is Outcome.FAIL:
                alarms += 1
                break
    assert alarms / runs <= 0.005


# Any float that a counter's difference may be, and those that computations overflow or lose themselves with.
numbers = st.floats() | st.sampled_from([0.0, 1.0, 5e-324, 1e-200, 1e9, 1e17, 1e18, 1e150, 1e300])
moments = st.builds(Moments, numbers, numbers, numbers) | st.builds(
    lambda count, mean, deviation: Moments(count, count * mean, count * (deviation * deviation + mean * mean)),
    st.sampled_from([30.0, 1e4, 1e15, 1e30]),
    st.sampled_from([0.0, 1e-200, 0.1, 800.0, -800.0, 1e5, 1e150]),
    st.sampled_from([0.0, 0.3, 1e10]),
)
proportions = st.builds(Proportion, numbers, numbers) | st.builds(
    lambda count, share: Proportion(count, count * share),
    st.sampled_from([1.0, 1e6, 1e14, 1e15, 1e18]),
    st.sampled_from([0.0, 1e-18, 0.5, 1 - 1e-16, 1.0]),
)
speeds = st.builds(
    Speed,
    st.builds(Buckets, st.just((0.25, 0.5, inf)), st.tuples(numbers, numbers, numbers)),
    st.tuples(st.builds(LengthBucket, moments, moments)),
    proportions,
)


@given(quality=st.builds(Quality, moments, proportions), speed=speeds, guard=speeds)
@settings(max_examples=500, deadline=None)
def test_no_numbers_whatever_keep_the_gates_from_saying_something(quality: Quality, speed: Speed, guard: Speed) -> None:
    for verdict in judge(ALL_GATES, Evidence(quality=quality, speed=speed, guard=guard)):
        assert verdict.value is None or isfinite(verdict.value), "JSON has no infinity"
        assert isfinite(verdict.samples)
        assert len(verdict.message) <= 1024
