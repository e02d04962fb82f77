"""How many bytes a workload takes. Free of torch, because the operator plans with it and the engine admits rows by it.

`dtypes` → bytes of a parameter, `costs` → habits of our engines, `cache` → keys and values, `activations` → one layer of a
pass, `footprint` → bytes by kind of one workload.
"""

from .cache import kv_bytes, row_kv_bytes
from .costs import Arm, Device, EngineCosts, engine_costs
from .dtypes import Dtype, dtype_of
from .errors import SizingError
from .footprint import Footprint, footprint, score_kv_bytes
from .workload import Workload

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
    "row_kv_bytes",
    "score_kv_bytes",
]
