"""Confidence sequences: intervals that cover at every look at once.

A gate is looked at every half minute for weeks. An interval that covers at one look with 95 % is left by the truth at
some look almost surely. These cover at all looks together with 1 - alpha, so one may stop at any of them. They come
from mixture martingales (Ville's inequality): Howard, Ramdas, McAuliffe, Sekhon, "Time-uniform, nonparametric,
nonasymptotic confidence sequences", Annals of Statistics 49(2), 2021.
"""

from math import exp, lgamma, log, log1p, pi, sqrt

# ln B(½, ½), the normaliser of the arcsine prior.
_LOG_PRIOR = log(pi)
_STEPS = 50
_CLOSE = 1e-12
_LARGEST_LOGARITHM = 700.0


def mean_radius(*, count: float, variance: float, alpha: float, tuned_for: float) -> float:
    """Half-width around the sample mean of `count` values with sample `variance`.

    The asymptotic sequence of Waudby-Smith, Arbour, Sinha, Kennedy and Ramdas ("Time-uniform central limit theory and
    asymptotic confidence sequences", 2024, theorem 2.2): a mixture over a normal prior, with the variance estimated. It
    needs no bound on the values and, as every statement by the central limit theorem, a few dozen of them.

    `tuned_for` is the count at which the interval is tightest; it must not depend on the data.
    """
    precision = -2 * log(alpha)
    precision = (precision + log(precision) + 1) / tuned_for
    growth = count * precision + 1
    return sqrt(variance * 2 * growth / (count * count * precision) * log(sqrt(growth) / alpha))


def proportion_interval(*, events: float, count: float, alpha_below: float, alpha_above: float) -> tuple[float, float]:
    """Bounds of a probability after `events` in `count` trials; `count` > 0.

    The beta-binomial mixture: those p remain that the arcsine prior, Beta(½, ½), does not beat by 1 / alpha. That prior
    (Krichevsky and Trofimov) is within ½ ln(count) + 1 nats of the best p whatever it is, so nothing needs tuning.
    Valid for any count, however small. The lower bound has `alpha_below`, the upper one `alpha_above`.
    """
    misses = count - events
    mixture = lgamma(events + 0.5) + lgamma(misses + 0.5) - lgamma(count + 1) - _LOG_PRIOR
    lower = _lower(events, misses, level=mixture + log(alpha_below))
    return lower, 1 - _lower(misses, events, level=mixture + log(alpha_above))


def _lower(events: float, misses: float, *, level: float) -> float:
    """The smaller of the two p at which the log-likelihood is at `level`.

    Newton's steps in u = ln p. The log-likelihood is concave in u, so from the left they never pass the bound: where they
    stop early, the interval is a little too wide. The first u is left of it, since the misses only lower the likelihood.
    """
    if not events:
        return 0.0
    u = level / events
    for _ in range(_STEPS):
        p = exp(u)
        step = (level - events * u - (misses * log1p(-p) if misses else 0.0)) / (
            events - misses * p / (1 - p) if misses else events
        )
        u += step
        if step < _CLOSE:
            break
    return exp(u)


def spent(alpha: float, *, index: int) -> float:
    """The share of `alpha` for the test with this index, from 0 on.

    alpha / ((i + 1)(i + 2)) sums to alpha over all i, so nobody needs to know how many tests there will be. The price is
    small: a sequence's width grows with the square root of the logarithm of 1 / alpha.
    """
    return alpha / ((index + 1) * (index + 2))


def to_ratio(logarithm: float) -> float:
    """exp, but the largest ratio that there is (1e304) for what no float holds: a status has no infinity."""
    return exp(min(logarithm, _LARGEST_LOGARITHM))
