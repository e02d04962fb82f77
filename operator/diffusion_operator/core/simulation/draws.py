"""Sums of many draws at once, so that a look costs the same whatever the traffic."""

from math import exp, log, log1p, sqrt
from random import Random

from diffusion_operator.core.verdict import Moments

_FEW = 30.0


def poisson(random: Random, mean: float) -> int:
    """How many of independent events happen. Normal beyond a mean of 30."""
    if mean <= 0:
        return 0
    if mean > _FEW:
        return max(0, round(random.gauss(mean, sqrt(mean))))
    count, product, limit = 0, random.random(), exp(-mean)
    while product > limit:
        count += 1
        product *= random.random()
    return count


def binomial(random: Random, trials: int, probability: float) -> int:
    """How many of `trials` are events. Exact where fewer than 30 are expected on either side, else normal."""
    if probability > 0.5:
        return trials - binomial(random, trials, 1 - probability)
    if trials <= 0 or probability <= 0:
        return 0
    mean = trials * probability
    if mean > _FEW:
        drawn = round(random.gauss(mean, sqrt(mean * (1 - probability))))
        return min(trials, max(0, drawn))
    # From event to event: the gaps are geometric.
    events, at, scale = 0, 0, log1p(-probability)
    while True:
        gap = log(1 - random.random()) / scale  # infinite where an event is all but impossible
        if gap >= trials - at:
            return events
        at += int(gap) + 1
        events += 1


def moments(random: Random, count: int, *, mean: float, deviation: float) -> Moments:
    """Sum and sum of squares of `count` normal values: its mean is normal, its variance chi-squared, independently."""
    if count <= 0:
        return Moments()
    total = count * mean + sqrt(count) * random.gauss(0.0, deviation)
    spread = deviation * deviation * random.gammavariate((count - 1) / 2, 2.0) if count > 1 else 0.0
    return Moments(count, total, spread + total * total / count)
