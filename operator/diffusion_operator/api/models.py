"""All parts of the resource in one place to import from."""

from .arms import ArmKind
from .base import ApiModel
from .endpoints import EndpointState, EndpointStatus, endpoint_hash
from .resource import DiffusionModel, ObjectMeta, StatusOnly, parse
from .rollout import RolloutState
from .sampler import Attention, Sampler, TemperatureRange
from .sizing import InspectedSource, MeasuredMemory, MemoryPlan, SizedArm, Sizing
from .spec import (
    DiffusionModelSpec,
    Fallback,
    FallbackEndpoint,
    Gates,
    Limits,
    ModelSource,
    Resources,
    Rollout,
    Routing,
    Scoring,
    SecretKeyRef,
    Toleration,
)
from .status import (
    ArmRole,
    Condition,
    ConditionStatus,
    DiffusionModelStatus,
    EngineLimits,
    Phase,
    RevisionStatus,
    RevisionTemplate,
    RouteArm,
    Routes,
)

__all__ = [
    "ApiModel",
    "ArmKind",
    "ArmRole",
    "Attention",
    "Condition",
    "ConditionStatus",
    "DiffusionModel",
    "DiffusionModelSpec",
    "DiffusionModelStatus",
    "EndpointState",
    "EndpointStatus",
    "EngineLimits",
    "Fallback",
    "FallbackEndpoint",
    "Gates",
    "InspectedSource",
    "Limits",
    "MeasuredMemory",
    "MemoryPlan",
    "ModelSource",
    "ObjectMeta",
    "Phase",
    "Resources",
    "RevisionStatus",
    "RevisionTemplate",
    "Rollout",
    "RolloutState",
    "RouteArm",
    "Routes",
    "Routing",
    "Sampler",
    "Scoring",
    "SecretKeyRef",
    "SizedArm",
    "Sizing",
    "StatusOnly",
    "TemperatureRange",
    "Toleration",
    "endpoint_hash",
    "parse",
]
