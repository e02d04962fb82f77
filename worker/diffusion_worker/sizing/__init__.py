"""How many bytes a workload takes. Free of torch, because the operator plans with it and the engine admits rows by it.

`dtypes` → bytes of a parameter, `costs` → what our engines keep in memory, `footprint` → bytes by kind of one workload.
"""

from .costs import Arm, Device, EngineCosts, engine_costs
from .dtypes import Dtype, dtype_of
from .errors import SizingError
from .footprint import Footprint, Workload, footprint, kv_bytes

__all__ = [
    "Arm",
    "Device",
    "Dtype",
    "EngineCosts",
    "Footprint",
    "SizingError",
    "Workload",
    "dtype_of",
    "engine_costs",
    "footprint",
    "kv_bytes",
]
