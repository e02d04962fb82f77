"""An API server in memory, with what matters to the loop: resource versions, conflicts, server-side apply, faults on demand."""

import copy
import itertools
from collections.abc import Callable
from typing import Any

from diffusion_operator.adapters.cluster import LiveChild
from diffusion_operator.adapters.errors import AdapterError, ConflictError, NotFoundError
from diffusion_operator.api.models import DiffusionModel, DiffusionModelStatus, EndpointStatus, ObjectMeta, RouteArm
from diffusion_operator.core.children import Child, ChildKind
from diffusion_operator.core.observation import ObservedGateway, ObservedPods
from diffusion_operator.core.step import Event


class FakeCluster:
    """Implements `Cluster`. `fault` is asked before each call, and may return an error to raise."""

    def __init__(self, model: DiffusionModel) -> None:
        self.model: DiffusionModel | None = model
        self.objects: dict[tuple[ChildKind, str], LiveChild] = {}
        self.ready: dict[str, int] = {}
        self.events: list[Event] = []
        self.writes = 0
        self.fault: Callable[[str], AdapterError | None] = lambda _: None
        self._versions = itertools.count(1)

    def _call(self, what: str, *, is_write: bool = False) -> None:
        error = self.fault(what)
        if error:
            raise error
        self.writes += is_write

    async def read_model(self, namespace: str, name: str) -> DiffusionModel:
        self._call("read_model")
        if self.model is None:
            raise NotFoundError(f"{namespace}/{name}")
        return self.model

    async def live_children(self, namespace: str, model: str) -> tuple[LiveChild, ...]:
        self._call("live_children")
        return tuple(self.objects.values())

    async def pods(self, deployment: LiveChild, *, namespace: str) -> ObservedPods:
        self._call("pods")
        return ObservedPods(ready=self.ready.get(deployment.revision, 0))

    async def write_status(self, metadata: ObjectMeta, status: DiffusionModelStatus) -> ObjectMeta:
        self._call("write_status")
        if self.model is None:
            raise NotFoundError("gone")
        if metadata.resource_version != self.model.metadata.resource_version:
            raise ConflictError("written by someone else")
        self.writes += 1
        self._replace(status=DiffusionModelStatus.model_validate(status.to_wire()))
        return self.model.metadata

    async def apply(self, child: Child) -> None:
        self._call("apply", is_write=True)
        manifest = copy.deepcopy(dict(child.manifest))
        manifest["metadata"]["resourceVersion"] = str(next(self._versions))
        self.objects[child.kind, child.name] = LiveChild(
            kind=child.kind,
            name=child.name,
            revision=child.revision,
            is_going=False,
            manifest=manifest,
        )

    async def delete(self, child: LiveChild, *, namespace: str) -> None:
        self._call("delete", is_write=True)
        self.objects.pop((child.kind, child.name), None)

    async def record(self, metadata: ObjectMeta, event: Event) -> None:
        self._call("record", is_write=True)
        self.events.append(event)

    def change(self, changed: DiffusionModel) -> None:
        """A person applies another spec."""
        assert self.model is not None
        generation = self.model.metadata.generation + 1
        self._replace(spec=changed.spec)
        metadata = self.model.metadata.model_copy(update={"generation": generation})
        self.model = self.model.model_copy(update={"metadata": metadata})

    def _replace(self, **parts: Any) -> None:
        assert self.model is not None
        metadata = self.model.metadata.model_copy(update={"resource_version": str(next(self._versions))})
        self.model = self.model.model_copy(update={"metadata": metadata, **parts})

    @property
    def arms(self) -> list[RouteArm]:
        return self.model.status.routes.arms if self.model else []

    @property
    def revisions(self) -> set[str]:
        """Hashes of all revisions that have any object."""
        return {child.revision for child in self.objects.values()}


class FakeGateways:
    """Implements `Gateways`: as many as there are entries, each with the routes it follows."""

    def __init__(self) -> None:
        self.pods: list[ObservedGateway] = []
        self.found: tuple[EndpointStatus, ...] = ()

    async def in_force(self, namespace: str, model: str, *, generation: int) -> tuple[ObservedGateway, ...]:
        return tuple(self.pods)

    async def endpoints(self, namespace: str, model: str) -> tuple[EndpointStatus, ...]:
        return self.found
