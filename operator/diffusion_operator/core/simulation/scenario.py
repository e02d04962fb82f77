"""What is true of a revision in a simulation, and of its traffic."""

from dataclasses import dataclass, replace
from enum import StrEnum

from diffusion_operator.api.units import seconds
from diffusion_operator.core.gates import GateName
from diffusion_operator.core.rollout import Policy
from diffusion_operator.core.rollout.policy import FIRST_TOKEN, LATENCY_RATIO


class Scenario(StrEnum):
    """Kinds of revisions."""

    HEALTHY = "healthy"
    REGRESSED = "regressed"
    SLOW = "slow"
    NOISY = "noisy"
    SILENT = "silent"


SCENARIOS = {
    Scenario.HEALTHY: "as good as AR in quality, well within the limits of speed and errors",
    Scenario.REGRESSED: "perplexity 30% above AR's, otherwise healthy",
    Scenario.SLOW: "half as slow again as the limits of both latency gates, otherwise healthy",
    Scenario.NOISY: "within the limits, but each value scatters three times as much, and one look in ten finds no metrics",
    Scenario.SILENT: "healthy, but Prometheus never answers",
}


@dataclass(frozen=True, slots=True)
class Truth:
    """What the drawn metrics are drawn from.

    `requests_per_day` are those that are free to go to any arm. `pair_deviation` is the standard deviation of a pair's
    difference in NLL per token (nats); `latency_deviation` that of total latency at one length, relative to its mean;
    `first_token_spread` that of the logarithm of the time to the first token. `unreadable` is the share of looks at which
    metrics cannot be read.
    """

    requests_per_day: float
    scored_share: float
    perplexity_ratio: float = 1.0
    pair_deviation: float = 0.5
    repetition: float = 0.05
    first_token_p95: float = 0.35
    first_token_spread: float = 0.4
    latency_ratio: float = 0.2
    latency_deviation: float = 0.3
    errors: float = 0.001
    unreadable: float = 0.0


def truth(scenario: Scenario, policy: Policy, *, requests_per_day: float, scored_share: float) -> Truth:
    """A scenario relative to the limits of a policy, since whoever sets other limits has other models and machines."""
    first_token = _limit(policy, GateName.TIME_TO_FIRST_TOKEN, seconds(FIRST_TOKEN))
    latency = _limit(policy, GateName.LATENCY_RATIO, LATENCY_RATIO)
    healthy = Truth(requests_per_day, scored_share, first_token_p95=0.7 * first_token, latency_ratio=latency * 2 / 3)
    match scenario:
        case Scenario.HEALTHY:
            return healthy
        case Scenario.REGRESSED:
            return replace(healthy, perplexity_ratio=1.3)
        case Scenario.SLOW:
            return replace(healthy, first_token_p95=1.5 * first_token, latency_ratio=1.5 * latency)
        case Scenario.NOISY:
            return replace(
                healthy,
                pair_deviation=3 * healthy.pair_deviation,
                latency_deviation=3 * healthy.latency_deviation,
                first_token_spread=2 * healthy.first_token_spread,
                unreadable=0.1,
            )
        case Scenario.SILENT:
            return replace(healthy, unreadable=1.0)


def _limit(policy: Policy, gate: GateName, default: float) -> float:
    return policy.gates[gate].highest if gate in policy.gates else default
