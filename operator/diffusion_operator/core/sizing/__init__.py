"""How much memory a model needs, and what fits a budget. Pure: facts and limits in, bytes out.

What one workload takes is in `diffusion_worker.sizing`, which the engine shares. Here: `plan` → the largest workload that
fits, or why none does and what would, `explain` → the same in words.
"""

from diffusion_worker.sizing import (
    Arm,
    Device,
    Dtype,
    EngineCosts,
    Footprint,
    SizingError,
    Workload,
    engine_costs,
    footprint,
)

from .explain import explain
from .plan import MOST_ROWS, Alternative, Asked, Budget, Plan, plan

__all__ = [
    "MOST_ROWS",
    "Alternative",
    "Arm",
    "Asked",
    "Budget",
    "Device",
    "Dtype",
    "EngineCosts",
    "Footprint",
    "Plan",
    "SizingError",
    "Workload",
    "engine_costs",
    "explain",
    "footprint",
    "plan",
]
