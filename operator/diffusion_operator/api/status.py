"""`status`: all memory of the operator. What is not here is forgotten at its next restart."""

from datetime import datetime
from enum import StrEnum
from typing import Any

from pydantic import Field

from .arms import ArmKind as ArmKind
from .base import ApiModel
from .endpoints import EndpointStatus
from .labels import GRPC_PORT
from .rollout import RevisionHash, RolloutState
from .sampler import Attention, Sampler
from .sizing import MemoryPlan, Sizing
from .spec import FallbackEndpoint, ModelSource, Resources


class Phase(StrEnum):
    """The state in one word, for people. Programs read conditions."""

    PENDING = "Pending"
    PROGRESSING = "Progressing"
    SERVING = "Serving"
    DEGRADED = "Degraded"
    FAILED = "Failed"


class ArmRole(StrEnum):
    """Why an arm is in the route table."""

    STABLE = "stable"
    CANARY = "canary"
    FALLBACK = "fallback"


class ConditionStatus(StrEnum):
    """Kubernetes' three truth values."""

    TRUE = "True"
    FALSE = "False"
    UNKNOWN = "Unknown"


# The API server takes no longer ones.
LONGEST_MESSAGE = 4096


class Condition(ApiModel):
    """One aspect of the state, as in every Kubernetes API."""

    type: str = Field(max_length=64, description="Name of the aspect, such as Ready.")
    status: ConditionStatus = Field(description="True, False or Unknown.")
    reason: str = Field(
        max_length=64, description="Why, as one word. docs/reference/conditions.md says what to do about each."
    )
    message: str = Field(max_length=LONGEST_MESSAGE, description="Why, as a sentence with names and numbers.")
    observed_generation: int = Field(description="The metadata.generation that this condition is about.")
    last_transition_time: datetime = Field(description="When status changed last.")


class RouteArm(ApiModel):
    """One place where the gateway sends requests."""

    role: ArmRole = Field(
        description="stable: the promoted diffusion revision, or the AR model until there is one. canary: the "
        "revision that is being "
        "rolled out. fallback: the AR model that takes over a failed request."
    )
    revision: str = Field(max_length=8, description="Hash of the revision.")
    kind: ArmKind = Field(description="diffusion or ar.")
    service: str = Field(
        default="", max_length=63, description="Headless Service of the revision's pods. Empty for an endpoint."
    )
    port: int = Field(default=GRPC_PORT, description="Triton's gRPC port.")
    percent: int = Field(ge=0, le=100, description="Share of the requests that are free to go to any arm.")
    endpoint: FallbackEndpoint | None = Field(
        default=None, description="The server that is asked instead of pods. Its revision is a hash of url and model."
    )


class Routes(ApiModel):
    """The only route table. Gateways watch it. Percents of all arms sum to 100, or there is no arm yet."""

    generation: int = Field(default=0, ge=0, description="Rises by one with each change of the table.")
    arms: list[RouteArm] = Field(default_factory=list, max_length=8, description="Where requests go.")


class EngineLimits(ApiModel):
    """Limits in force: what spec.limits means in numbers."""

    max_batch_size: int = Field(description="Rows in flight in one pod.")
    planned_rows: int | None = Field(
        default=None,
        description="With limits.maxBatchSize auto: rows of full length that fit the memory. Shorter ones may be more.",
    )
    max_sequence_length: int | None = Field(
        default=None, description="Prompt and output tokens of one row. Absent: the model's own limit."
    )
    batch_window: str = Field(description="How long an idle engine waits for company.")
    queue_size: int = Field(description="Requests that may wait in one pod.")
    request_timeout: str = Field(description="How long a request may wait in one pod.")


class RevisionTemplate(ApiModel):
    """Everything that a revision's pods are made of. Its hash is the revision's name."""

    kind: ArmKind = Field(description="diffusion or ar.")
    image: str = Field(max_length=512, description="Worker image.")
    model: ModelSource = Field(description="The checkpoint.")
    sampler: Sampler | None = Field(default=None, description="How a canvas is denoised. Absent for AR.")
    attention: Attention | None = Field(default=None, description="What a canvas sees of the text before it.")
    limits: EngineLimits = Field(description="Limits in force.")
    resources: Resources = Field(description="What a pod gets.")
    repetition_window: int | None = Field(
        default=None, description="Tokens in which a repetition counts. Absent: the worker's own."
    )


class RevisionStatus(ApiModel):
    """A revision that has pods. Kept until no gateway sends requests to it any more, whatever spec says by then."""

    hash: RevisionHash
    ready_pods: int = Field(default=0, ge=0, description="Pods that answer now.")
    has_been_ready: bool = Field(
        default=False, description="True once it had a ready pod. Only then may requests be sent to it."
    )
    template: RevisionTemplate = Field(description="What its pods are made of.")
    memory: MemoryPlan | None = Field(
        default=None, description="What its pods may take, as planned when it was made. Absent: nothing was planned."
    )
    main_memory_bytes: int | None = Field(
        default=None,
        ge=1,
        description="Main memory of each pod with a GPU where resources.memory is absent, as planned when the revision "
        "was made. Absent: the default of resources.memory.",
    )


# Nobody else writes status: with each field on its own the API server would keep a list of fields as long as the status.
_ONE_PIECE: dict[str, Any] = {"x-kubernetes-map-type": "atomic"}
_ONE_LIST: dict[str, Any] = {"x-kubernetes-list-type": "atomic"}


class DiffusionModelStatus(ApiModel):
    """What the operator saw and decided. Written by the operator only."""

    observed_generation: int | None = Field(
        default=None, description="The metadata.generation that this status is about."
    )
    phase: Phase | None = Field(
        default=None,
        description="Pending: nothing answers. Progressing: a revision is starting or being rolled out. "
        "Serving: all is as spec "
        "asks. Degraded: requests are answered, but an arm that should answer does not. Failed: needs a person; see "
        "conditions.",
    )
    replicas: int | None = Field(
        default=None, ge=0, description="Pods of the revision that most requests go to, for autoscalers."
    )
    selector: str | None = Field(
        default=None, max_length=512, description="Labels of those pods, for autoscalers: serialised, as they read it."
    )
    url: str | None = Field(default=None, description="Where the OpenAI-compatible API is served inside the cluster.")
    conditions: list[Condition] = Field(
        default_factory=list,
        max_length=16,
        json_schema_extra={"x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": ["type"]},
        description="The state by aspect.",
    )
    rollout: RolloutState = Field(
        default_factory=RolloutState,
        json_schema_extra=_ONE_PIECE,
        description="Which revision plays which part, and how the canary does.",
    )
    routes: Routes = Field(
        default_factory=Routes, json_schema_extra=_ONE_PIECE, description="Where gateways send requests."
    )
    sizing: Sizing | None = Field(
        default=None, json_schema_extra=_ONE_PIECE, description="What fits the memory of a pod, and why."
    )
    endpoints: list[EndpointStatus] = Field(
        default_factory=list,
        max_length=8,
        json_schema_extra=_ONE_LIST,
        description="AR servers of fallback.endpoint, as gateways see them.",
    )
    revisions: list[RevisionStatus] = Field(
        default_factory=list,
        max_length=32,
        json_schema_extra=_ONE_LIST,
        description="Revisions that have pods.",
    )
