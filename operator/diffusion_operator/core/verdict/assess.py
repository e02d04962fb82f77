"""The four verdicts, from an estimate and a limit."""

from dataclasses import dataclass

from diffusion_operator.api.rollout import Outcome

from .estimates import Estimate, needed_factor

# A share passes when it is proven to be within a quarter above its limit, or half a percentage point; a ratio within 5 %.
# Without such a margin a revision that is exactly at the limit would be held for ever: no amount of data proves on which
# side it is. A proven breach of the limit itself fails, however small, and counts before the margin.
RATIO_MARGIN = 0.05
SHARE_MARGIN = 0.25
LEAST_SHARE_MARGIN = 0.005


@dataclass(frozen=True, slots=True)
class Limit:
    """`value` is the limit that a person set; up to `passes` it counts as kept. `min_samples` come before any verdict."""

    value: float
    passes: float
    min_samples: float

    @classmethod
    def of_ratio(cls, value: float, *, min_samples: float) -> "Limit":
        """Highest ratio."""
        return cls(value, value * (1 + RATIO_MARGIN), min_samples)

    @classmethod
    def of_share(cls, value: float, *, min_samples: float) -> "Limit":
        """Highest share, from 0 to 1."""
        return cls(value, min(1.0, value + max(SHARE_MARGIN * value, LEAST_SHARE_MARGIN)), min_samples)


@dataclass(frozen=True, slots=True)
class Test:
    """An outcome with what it rests on. `missing` is how many more samples may settle it, None when nobody can say."""

    outcome: Outcome
    estimate: Estimate
    missing: float | None = None


def assess(estimate: Estimate, limit: Limit) -> Test:
    """Fail: proven above the limit. Pass: proven within the margin. Inconclusive: too few samples, or neither."""
    if estimate.samples < limit.min_samples or estimate.value is None:
        return Test(Outcome.INCONCLUSIVE, estimate, missing=max(limit.min_samples - estimate.samples, 0) or None)
    if estimate.lower > limit.value:
        return Test(Outcome.FAIL, estimate)
    if estimate.upper <= limit.passes:
        return Test(Outcome.PASS, estimate)
    factor = needed_factor(estimate, to_bound=limit.passes)
    return Test(Outcome.INCONCLUSIVE, estimate, missing=None if factor is None else estimate.samples * (factor - 1))
