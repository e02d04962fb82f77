"""Names and limits of the gates."""

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum


class GateName(StrEnum):
    """Gates by the names that they have in spec.rollout.gates; `crashes` has nothing to set."""

    PERPLEXITY_RATIO = "perplexityRatio"
    REPETITION_RATE = "repetitionRate"
    TIME_TO_FIRST_TOKEN = "timeToFirstToken"  # noqa: S105 no secret
    LATENCY_RATIO = "latencyRatio"
    ERROR_RATE = "errorRate"
    CRASHES = "crashes"


@dataclass(frozen=True, slots=True)
class GateLimit:
    """`highest` in the unit of the gate: a ratio, a share from 0 to 1, or seconds of the 95th percentile."""

    highest: float
    min_samples: float


GateLimits = Mapping[GateName, GateLimit]
"""The gates in force. One that is absent is not judged; `crashes` is judged always."""
