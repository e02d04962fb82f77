"""`Cluster` on a real API server."""

import asyncio
from collections.abc import AsyncIterator
from typing import Any

from pydantic import ValidationError

from diffusion_operator.api import labels
from diffusion_operator.api.models import DiffusionModel, DiffusionModelStatus, ObjectMeta, StatusOnly, parse
from diffusion_operator.core.children import Child, ChildKind
from diffusion_operator.core.observation import ObservedPods
from diffusion_operator.core.step import Event

from . import clock
from .cluster import LiveChild, Unreadable
from .connection import Connection
from .errors import ConflictError, InvalidError, NotFoundError
from .events import EventRecorder
from .known_objects import KnownObjects, Listing, live_child
from .own_writes import OwnWrites
from .pods import is_stuck, waiting_for

_MODELS = f"/apis/{labels.API_VERSION}"
_COLLECTIONS = {
    ChildKind.CONFIG_MAP: ("/api/v1", "configmaps"),
    ChildKind.SERVICE: ("/api/v1", "services"),
    ChildKind.DEPLOYMENT: ("/apis/apps/v1", "deployments"),
    ChildKind.JOB: ("/apis/batch/v1", "jobs"),
}
# A Deployment of ours is some 10 KB as JSON: no answer is long in coming, and none takes much memory.
_PAGE = 250
# A watch that begins tells of all that there is, which takes a while. What is listed before it has done so is listed in vain.
_PAUSE_SECONDS = 0.3
_MOST_PAUSES = 10


class KubernetesCluster:
    """The API server behind a connection.

    `own_writes` hears of statuses and children that were written. `known` are the objects that watches tell of: without
    watches leave it away, and they are read each time.
    """

    def __init__(
        self, connection: Connection, *, own_writes: OwnWrites | None = None, known: KnownObjects | None = None
    ) -> None:
        self._connection = connection
        self._own_writes = own_writes or OwnWrites()
        self._known = known
        self._listings: dict[str, asyncio.Task[Listing]] = {}
        self._events = EventRecorder(connection)

    async def read_model(self, namespace: str, name: str) -> DiffusionModel | Unreadable:
        """The resource as it is now, or was when a watch told of it last: a write that comes too late is a conflict."""
        raw = self._known.model((namespace, name)) if self._known is not None else None
        if raw is None:
            raw = await self._read_model(namespace, name)
        try:
            return parse(raw)
        except ValidationError as error:
            return Unreadable(resource=_status_of(raw, what=f"{namespace}/{name}"), message=_first_errors(error))

    async def _read_model(self, namespace: str, name: str) -> dict[str, Any]:
        asked_at = clock.monotonic()
        try:
            raw = await self._connection.request("GET", _model_path(namespace, name), what=f"read {namespace}/{name}")
        except NotFoundError:
            if self._known is not None:
                self._known.forget_model((namespace, name))
            raise
        if self._known is not None:
            self._known.tell_model(raw, at=asked_at)
        return raw

    async def live_children(self, namespace: str, model: str) -> tuple[LiveChild, ...]:
        """All objects that carry our labels for this resource."""
        if self._known is None:
            return tuple([child async for child in self._each_child(namespace, f"={model}")])
        arrived = clock.monotonic()
        while True:
            known = self._known.children((namespace, model))
            if known is not None:
                return known
            listing = await self._listed(namespace, self._known)
            # One that was asked for before we came may lack what woke us. If no watch began since, it is known by now and
            # followed by news; else it is read again.
            if listing.asked_at >= arrived:
                return listing.of(model)

    async def _listed(self, namespace: str, known: KnownObjects) -> Listing:
        """A list of a namespace's children: whoever comes while it is read waits for the same one, and fails with it."""

        async def read() -> Listing:
            for _ in range(_MOST_PAUSES):
                if known.is_undoubted_for(_PAUSE_SECONDS):
                    break
                await asyncio.sleep(_PAUSE_SECONDS)
            listing = known.listing(namespace)
            async for child in self._each_child(namespace, ""):
                listing.found(child)
            known.listed(listing)
            return listing

        def is_over(task: asyncio.Task[Listing]) -> None:
            del self._listings[namespace]
            if not task.cancelled():
                task.exception()  # seen, also when nobody waits for it any more

        task = self._listings.get(namespace)
        if task is None:
            task = self._listings[namespace] = asyncio.create_task(read(), name=f"list of the children in {namespace}")
            task.add_done_callback(is_over)
        return await asyncio.shield(task)

    async def _each_child(self, namespace: str, of_model: str) -> AsyncIterator[LiveChild]:
        selector = f"{labels.MODEL}{of_model},{labels.MANAGED_BY}={labels.MANAGED_BY_VALUE}"
        for kind in ChildKind:
            query = {"labelSelector": selector, "limit": str(_PAGE)}
            while True:
                answer = await self._connection.request(
                    "GET", _collection(kind, namespace), what=f"list our {kind}s in {namespace}", query=query
                )
                # Items of a list do not say what they are.
                what = {"apiVersion": answer["apiVersion"], "kind": kind.value}
                for item in answer["items"]:
                    yield live_child(kind, what | item)
                if not answer["metadata"].get("continue"):
                    break
                query["continue"] = answer["metadata"]["continue"]

    async def pods(self, deployment: LiveChild, *, namespace: str) -> ObservedPods:
        """What a revision's pods are up to. They are only listed when some are not ready, or others cannot replace them."""
        status = deployment.manifest.get("status", {})
        ready = int(status.get("readyReplicas", 0))
        if ready >= deployment.manifest["spec"].get("replicas", 1) and not is_stuck(status):
            return ObservedPods(ready=ready, pods=int(status.get("replicas", 0)))
        model = deployment.manifest["metadata"]["labels"][labels.MODEL]
        answer = await self._connection.request(
            "GET",
            f"/api/v1/namespaces/{namespace}/pods",
            what=f"list pods of {namespace}/{deployment.name}",
            # By model as well: two resources with the same spec have revisions of the same hash.
            query={"labelSelector": f"{labels.MODEL}={model},{labels.REVISION}={deployment.revision}"},
        )
        return ObservedPods(
            ready=ready,
            stuck=is_stuck(status),
            waiting_for=waiting_for(answer["items"], deployment=status),
            pods=int(status.get("replicas", 0)),
        )

    async def write_status(self, metadata: ObjectMeta, status: DiffusionModelStatus) -> ObjectMeta:
        """Replace the status, if nobody wrote the resource since `metadata` was read."""
        body = {
            "apiVersion": labels.API_VERSION,
            "kind": labels.KIND,
            "metadata": {
                "name": metadata.name,
                "namespace": metadata.namespace,
                "uid": metadata.uid,
                "resourceVersion": metadata.resource_version,
            },
            "status": status.to_wire(),
        }
        asked_at = clock.monotonic()
        try:
            answer = await self._connection.request(
                "PUT",
                f"{_model_path(metadata.namespace, metadata.name)}/status",
                what=f"write the status of {metadata.namespace}/{metadata.name}",
                query={"fieldManager": labels.FIELD_MANAGER},
                body=body,
            )
        except (ConflictError, NotFoundError):
            if self._known is not None:
                self._known.forget_model((metadata.namespace, metadata.name))
            raise
        self._own_writes.note(answer["metadata"])
        if self._known is not None:
            self._known.tell_model(answer, at=asked_at)
        return ObjectMeta.model_validate(answer["metadata"])

    async def apply(self, child: Child) -> None:
        """Make an object what its manifest says. Fields of ours that someone else changed are taken back."""
        answer = await self._connection.request(
            "PATCH",
            f"{_collection(child.kind, child.namespace)}/{child.name}",
            what=f"apply {child.kind} {child.namespace}/{child.name}",
            # Unknown fields are errors of an apply in any case. Looking for others to warn of takes a fifth of its time.
            query={"fieldManager": labels.FIELD_MANAGER, "force": "true", "fieldValidation": "Ignore"},
            body=child.manifest,
            content_type="application/apply-patch+yaml",
        )
        self._own_writes.note(answer["metadata"])
        if self._known is not None:
            self._known.tell_child(child.kind, answer)

    async def delete(self, child: LiveChild, *, namespace: str) -> None:
        """Remove an object; fine when it is gone already."""
        try:
            answer = await self._connection.request(
                "DELETE",
                f"{_collection(child.kind, namespace)}/{child.name}",
                what=f"delete {child.kind} {namespace}/{child.name}",
                query={"propagationPolicy": "Background"},
            )
        except NotFoundError:
            answer = {"kind": "Status"}
        if self._known is not None:
            # The object itself is the answer where something keeps it from going.
            is_gone = answer["kind"] == "Status"
            self._known.tell_child(child.kind, child.manifest if is_gone else answer, is_gone=is_gone)

    async def record(self, metadata: ObjectMeta, event: Event) -> None:
        """Write an event about the resource."""
        await self._events.record(metadata, event)


def _model_path(namespace: str, name: str) -> str:
    return f"{_MODELS}/namespaces/{namespace}/{labels.PLURAL}/{name}"


def _collection(kind: ChildKind, namespace: str) -> str:
    root, plural = _COLLECTIONS[kind]
    return f"{root}/namespaces/{namespace}/{plural}"


def _status_of(raw: dict[str, Any], *, what: str) -> StatusOnly:
    """Metadata and status.

    Raises:
        InvalidError: the status cannot be read either. It names the pods that serve, so nothing may be written over it.
    """
    try:
        return StatusOnly.model_validate(raw)
    except ValidationError as error:
        raise InvalidError(
            f"read the status of {what}: {_first_errors(error)}. It was written by a newer operator or by hand, and is "
            f"left as it is: run the newer operator again, or remove it (kubectl patch dm NAME "
            f"--subresource=status --type=merge -p '{{\"status\": null}}'), which stops what serves until it is made anew"
        ) from error


def _first_errors(error: ValidationError) -> str:
    """The first few problems, by field."""
    problems = [f"{'.'.join(map(str, problem['loc']))}: {problem['msg']}" for problem in error.errors()[:3]]
    return "; ".join(problems)
