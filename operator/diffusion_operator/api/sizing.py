"""`status.sizing`: what is known of the checkpoints, and what fits the memory of a pod."""

from datetime import datetime

from pydantic import Field

from .arms import ArmKind
from .base import ApiModel
from .rollout import RevisionHash

LONGEST_FACTS = 4096
LONGEST_FAILURE = 1024


class MemoryPlan(ApiModel):
    """What a revision was made with. It stays while the revision does: another plan would replace running pods."""

    budget_bytes: int = Field(ge=1, description="Memory that may be planned with.")
    weights: int = Field(ge=0, description="Bytes of the weights.")
    kv: int = Field(ge=0, description="Keys and values of all planned rows at their longest.")
    step: int = Field(ge=0, description="Logits, soft embeddings and activations of the largest pass.")
    reserve: int = Field(ge=0, description="Context of the device, and what fragmentation loses.")

    @property
    def total(self) -> int:
        """Bytes of all parts."""
        return self.weights + self.kv + self.step + self.reserve


class MeasuredMemory(ApiModel):
    """What a pod of the revision took, as it measured it before it became ready."""

    weights: int | None = Field(default=None, ge=0, description="Bytes of the weights.")
    kv: int | None = Field(default=None, ge=0, description="Keys and values of all planned rows at their longest.")
    step: int | None = Field(default=None, ge=0, description="The largest pass.")
    reserve: int | None = Field(default=None, ge=0, description="Everything else.")
    total: int = Field(ge=0, description="All of it at the peak.")


class InspectedSource(ApiModel):
    """A checkpoint whose headers a Job has read, or is to read."""

    key: str = Field(max_length=8, description="Hash of the source and its revision.")
    source: str = Field(max_length=512, description="As in spec.")
    image: str = Field(max_length=512, description="Worker image that reads it.")
    facts: str | None = Field(
        default=None,
        max_length=LONGEST_FACTS,
        description="What `diffusion-worker inspect --output json` found, as compact JSON. "
        "`diffusion-operator plan --source FILE` reads it.",
    )
    failure: str | None = Field(
        default=None, max_length=LONGEST_FAILURE, description="Why the last Job found nothing. Absent with facts."
    )
    attempts: int = Field(default=0, ge=0, description="Jobs that failed so far.")
    retry_at: datetime | None = Field(default=None, description="When the next Job is made.")


class SizedArm(ApiModel):
    """The plan for one arm as spec asks for it now."""

    kind: ArmKind = Field(description="diffusion or ar.")
    revision: RevisionHash = Field(description="Hash of the revision that the plan is for.")
    fits: bool = Field(description="Whether it fits the budget.")
    rows: int = Field(ge=1, description="Requests of full length that run at once.")
    tokens: int = Field(ge=1, description="Prompt and output of each.")
    dtype: str = Field(max_length=16, description="Number format of the weights in memory.")
    memory: MemoryPlan = Field(description="What takes how much.")
    measured: MeasuredMemory | None = Field(default=None, description="What a ready pod took. Absent until known.")


class Sizing(ApiModel):
    """What fits the memory of a pod, and why."""

    gpu_memory_bytes: int | None = Field(
        default=None,
        ge=1,
        description="Memory of the smallest GPU of the nodes that pods may run on, from their label "
        "nvidia.com/gpu.memory. The smallest that was seen since these labels are asked for.",
    )
    nodes: str | None = Field(
        default=None, max_length=4096, description="Labels of those nodes, from resources.nodeSelector."
    )
    sources: list[InspectedSource] = Field(
        default_factory=list,
        max_length=8,
        json_schema_extra={"x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": ["key"]},
        description="Checkpoints, and what is known of them.",
    )
    arms: list[SizedArm] = Field(
        default_factory=list,
        max_length=2,
        json_schema_extra={"x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": ["kind"]},
        description="The plan for each arm.",
    )
