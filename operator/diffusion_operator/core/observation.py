"""What the shell saw before a decision."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime

from diffusion_operator.api.models import EndpointStatus

from .gates import Crashes
from .rollout import Reading, Run
from .sized.observation import NOTHING_SEEN, ObservedSizing


@dataclass(frozen=True, slots=True)
class ObservedPods:
    """The pods of one revision.

    `pods` are all of them, `ready` those that answer requests. `stuck` is true when the Deployment gave up waiting for
    progress. `waiting_for` is a sentence on what pods that are not ready wait for, empty when nothing is known.
    """

    ready: int = 0
    stuck: bool = False
    waiting_for: str = ""
    pods: int = 0


@dataclass(frozen=True, slots=True)
class ObservedGateway:
    """What one ready gateway pod sends requests by.

    `generation` is that of the routes it has in force for the resource; None when it knows no routes for it.
    `answered` is false when its admin port could not be read: it may send requests anywhere.
    """

    name: str
    answered: bool
    generation: int | None = None
    revisions: frozenset[str] = frozenset()


@dataclass(frozen=True, slots=True)
class Observation:
    """Everything a decision depends on beside spec and status.

    `pods`, `crashes`, `readings` and `runs` are by revision hash. `endpoints` is what each gateway says of AR servers that are not ours. `children` are the hashes of all revisions that have any object. `rejected` is what the
    API server said when it refused a child after the last decision, empty when it took all. `readings` are metrics that
    were read for this decision; `is_measured` is false between two looks, when none were asked for. `runs` and `starts` are what the
    decision before returned.
    """

    pods: Mapping[str, ObservedPods] = field(default_factory=dict)
    children: frozenset[str] = frozenset()
    gateways: tuple[ObservedGateway, ...] = ()
    rejected: str = ""
    crashes: Mapping[str, Crashes] = field(default_factory=dict)
    readings: Mapping[str, Reading] = field(default_factory=dict)
    runs: Mapping[str, Run] = field(default_factory=dict)
    starts: Mapping[str, datetime] = field(default_factory=dict)
    is_measured: bool = False
    sizing: ObservedSizing = NOTHING_SEEN
    endpoints: tuple[EndpointStatus, ...] = ()


NO_PODS = ObservedPods()
