"""What the loop needs of Kubernetes, in our words."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Protocol

from diffusion_operator.api.models import DiffusionModel, DiffusionModelStatus, ObjectMeta, StatusOnly
from diffusion_operator.core.children import Child, ChildKind
from diffusion_operator.core.observation import ObservedPods
from diffusion_operator.core.step import Event

from .own_writes import Version, version_of


@dataclass(frozen=True, slots=True)
class Unreadable:
    """A resource whose spec this release cannot read, and why."""

    resource: StatusOnly
    message: str


@dataclass(frozen=True, slots=True)
class LiveChild:
    """An object with our labels as it is in the cluster. `owner` tells whether it is ours.

    `revision` is the hash in its name: of a revision, or of the inspection that a Job makes.
    """

    kind: ChildKind
    name: str
    revision: str
    is_going: bool
    manifest: Mapping[str, Any]

    @property
    def version(self) -> Version:
        """Which object it is, as of which change."""
        return version_of(self.manifest["metadata"])

    @property
    def owner(self) -> str:
        """UID of what controls it, empty when nothing does."""
        references = self.manifest["metadata"].get("ownerReferences", ())
        return next((str(reference["uid"]) for reference in references if reference.get("controller")), "")


class Cluster(Protocol):
    """The API server. Every method raises `errors.AdapterError` only."""

    async def read_model(self, namespace: str, name: str) -> DiffusionModel | Unreadable:
        """The resource as it is now."""
        ...

    async def live_children(self, namespace: str, model: str) -> tuple[LiveChild, ...]:
        """All objects that carry our labels for this resource."""
        ...

    async def pods(self, deployment: LiveChild, *, namespace: str) -> ObservedPods:
        """What a revision's pods are up to."""
        ...

    async def write_status(self, metadata: ObjectMeta, status: DiffusionModelStatus) -> ObjectMeta:
        """Replace the status, if nobody wrote the resource since `metadata` was read. Returns the metadata after it."""
        ...

    async def apply(self, child: Child) -> None:
        """Make an object what its manifest says, by server-side apply."""
        ...

    async def delete(self, child: LiveChild, *, namespace: str) -> None:
        """Remove an object; fine when it is gone already."""
        ...

    async def record(self, metadata: ObjectMeta, event: Event) -> None:
        """Write an event about the resource."""
        ...
