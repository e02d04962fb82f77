"""Names and limits of the gates."""

from collections.abc import Mapping
from dataclasses import dataclass

from diffusion_operator.api.rollout import GateName


@dataclass(frozen=True, slots=True)
class GateLimit:
    """`highest` in the unit of the gate: a ratio, a share from 0 to 1, or seconds of the 95th percentile."""

    highest: float
    min_samples: float


GateLimits = Mapping[GateName, GateLimit]
"""The gates in force. One that is absent is not judged; `crashes` is judged always."""
