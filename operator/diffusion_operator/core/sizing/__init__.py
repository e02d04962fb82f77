"""How much memory a model needs, and what fits a budget. Pure: facts and limits in, bytes out.

`dtypes` → bytes of a parameter, `engine` → what our engine keeps in memory, `footprint` → bytes by kind of one
workload, `plan` → the largest workload that fits, or why none does and what would, `explain` → the same in words.
"""

from .dtypes import Dtype
from .engine import Arm, Device, EngineCosts, engine_costs
from .errors import SizingError
from .explain import explain
from .footprint import Footprint, Workload, footprint
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
