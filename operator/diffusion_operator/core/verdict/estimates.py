"""From a measurement to a value between two always-valid bounds."""

from dataclasses import dataclass
from math import inf, log

from .measurements import Buckets, LengthBucket, Moments, Proportion
from .sequences import mean_radius, proportion_interval, to_ratio

# Intervals for means rest on the central limit theorem: with fewer samples than this they say nothing.
FEWEST_FOR_A_MEAN = 30

# Nothing is answered in less time: means below are of no answers.
_SHORTEST_SECONDS = 1e-9

# A quantile is judged as the share of values above the limit: p95 <= limit says that at most 5 % are above it.
QUANTILE = 0.95
ALLOWED_ABOVE = 1 - QUANTILE


@dataclass(frozen=True, slots=True)
class Confidence:
    """Chance that the truth is ever outside: under the lower bound of `fail`, over the upper bound of `pass_`."""

    fail: float
    pass_: float


@dataclass(frozen=True, slots=True)
class Estimate:
    """What was measured, and what the truth is at least and at most.

    `shown` is the value for people where that is another one: the quantile in seconds behind a share of values above
    the limit.
    """

    samples: float
    value: float | None = None
    lower: float = -inf
    upper: float = inf
    shown: float | None = None


def perplexity_ratio(pairs: Moments, *, confidence: Confidence, min_samples: float) -> Estimate:
    """exp of the mean difference of negative log-likelihoods per token (nats), diffusion minus AR, over pairs.

    Both answers of a pair are to the same prompt, so what prompts have in common cancels.
    """
    if pairs.count < FEWEST_FOR_A_MEAN:
        value = to_ratio(pairs.mean) if pairs.count >= 1 else None
        return Estimate(pairs.count, value=value)
    return _ratio(pairs.mean, variance=pairs.variance, count=pairs.count, confidence=confidence, tuned_for=min_samples)


def share(trials: Proportion, *, confidence: Confidence) -> Estimate:
    """Probability of an event."""
    if trials.count <= 0:
        return Estimate(0.0)
    events = min(max(trials.events, 0.0), trials.count)
    lower, upper = proportion_interval(
        events=events, count=trials.count, alpha_below=confidence.fail, alpha_above=confidence.pass_
    )
    return Estimate(trials.count, value=events / trials.count, lower=lower, upper=upper)


def share_above(values: Buckets, *, limit: float, confidence: Confidence) -> Estimate:
    """Share of values above `limit`. This is the quantile sequence of Howard and Ramdas (2022) at one quantile.

    Where `limit` lies within a bucket, the bounds allow for both: all of the bucket above it, and none.
    """
    if values.count <= 0:
        return Estimate(0.0)
    surely, possibly = (share(part, confidence=confidence) for part in values.above(limit))
    return Estimate(
        values.count,
        value=possibly.value if surely.value is None else surely.value,
        lower=surely.lower,
        upper=possibly.upper,
        shown=values.quantile(QUANTILE),
    )


def latency_ratio(buckets: tuple[LengthBucket, ...], *, confidence: Confidence, min_samples: float) -> Estimate:
    """Mean latency, diffusion over AR, standardised to the lengths of diffusion's answers.

    Longer answers take longer: arms that answer different lengths cannot be compared by their means. Each bucket's means
    are weighted by diffusion's share of answers in it, on both sides; buckets that one arm hardly ever answered in are left
    out: AR gets the short answers by rule, and the spread of two long ones, which would weigh most, is known to nobody.
    The variance is by the delta method on the logarithm.
    """
    shared = [bucket for bucket in buckets if min(bucket.diffusion.count, bucket.ar.count) >= FEWEST_FOR_A_MEAN]
    if not shared:
        return Estimate(0.0)
    answers = sum(bucket.diffusion.count for bucket in shared)
    weights = [bucket.diffusion.count / answers for bucket in shared]
    # AR's answers of diffusion's lengths that would tell equally much.
    ar_answers = 1 / sum(w * w / b.ar.count for w, b in zip(weights, shared, strict=True))
    samples = min(answers, ar_answers)
    weighted = list(zip(weights, shared, strict=True))
    diffusion = sum(w * b.diffusion.mean for w, b in weighted)
    ar = sum(w * b.ar.mean for w, b in weighted)
    if min(diffusion, ar) < _SHORTEST_SECONDS:
        return Estimate(samples)
    variance = sum(w * w * b.diffusion.variance / b.diffusion.count for w, b in weighted) / diffusion**2
    variance += sum(w * w * b.ar.variance / b.ar.count for w, b in weighted) / ar**2
    # As many pairs as would tell equally much.
    count = 1 / (1 / answers + 1 / ar_answers)
    estimate = _ratio(
        log(diffusion / ar), variance=variance * count, count=count, confidence=confidence, tuned_for=min_samples / 2
    )
    return Estimate(samples, value=estimate.value, lower=estimate.lower, upper=estimate.upper)


def _ratio(logarithm: float, *, variance: float, count: float, confidence: Confidence, tuned_for: float) -> Estimate:
    below = mean_radius(count=count, variance=variance, alpha=confidence.fail, tuned_for=tuned_for)
    above = mean_radius(count=count, variance=variance, alpha=confidence.pass_, tuned_for=tuned_for)
    return Estimate(
        count,
        value=to_ratio(logarithm),
        lower=to_ratio(logarithm - below),
        upper=to_ratio(logarithm + above),
    )


def needed_factor(estimate: Estimate, *, to_bound: float) -> float | None:
    """How many times the samples so far until the upper bound is about at `to_bound`; None when that is not in sight."""
    if estimate.value is None or estimate.upper == inf or estimate.value >= to_bound:
        return None
    times = (estimate.upper - estimate.value) / (to_bound - estimate.value)
    factor = times * times
    return max(1.0, factor) if factor < inf else None
