"""What the shell saw of checkpoints, nodes and memory before a decision."""

from collections.abc import Mapping
from dataclasses import dataclass, field

from diffusion_operator.api.models import MeasuredMemory


@dataclass(frozen=True, slots=True)
class ObservedInspection:
    """A Job that reads a checkpoint's headers.

    `message` is what its container left behind: facts when it succeeded, else why there are none; empty when nothing
    is known. `waiting_for` is what its pod waits for, while it has not ended.
    """

    has_ended: bool = False
    succeeded: bool = False
    message: str = ""
    waiting_for: str = ""


@dataclass(frozen=True, slots=True)
class ObservedNodes:
    """The nodes that a model's pods may run on. `gpu_memory_bytes` is that of the smallest GPU; None: `why` it is not known."""

    gpu_memory_bytes: int | None = None
    why: str = ""


@dataclass(frozen=True, slots=True)
class ObservedSizing:
    """All of it.

    `inspections` are by the hash of the Job. `nodes` is None when nobody asked for them. `measured` is what pods took, by
    revision, of those that were asked now.
    """

    inspections: Mapping[str, ObservedInspection] = field(default_factory=dict)
    nodes: ObservedNodes | None = None
    measured: Mapping[str, MeasuredMemory] = field(default_factory=dict)


NOTHING_SEEN = ObservedSizing()
