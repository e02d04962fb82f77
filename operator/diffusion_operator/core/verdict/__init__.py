"""Statistics of the gates: from counts and sums to a verdict that holds however often it is looked at."""

from diffusion_operator.api.rollout import Outcome

from .assess import Limit, Test, assess
from .estimates import Confidence, Estimate
from .measurements import Buckets, LengthBucket, Measurement, Moments, Proportion, Unreadable
from .sequences import spent

__all__ = [
    "Buckets",
    "Confidence",
    "Estimate",
    "LengthBucket",
    "Limit",
    "Measurement",
    "Moments",
    "Outcome",
    "Proportion",
    "Test",
    "Unreadable",
    "assess",
    "spent",
]
