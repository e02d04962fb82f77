"""`Cluster` on a real API server."""

from typing import Any

from pydantic import ValidationError

from diffusion_operator.api import labels
from diffusion_operator.api.models import DiffusionModel, DiffusionModelStatus, ObjectMeta, StatusOnly, parse
from diffusion_operator.core.children import Child, ChildKind
from diffusion_operator.core.observation import ObservedPods
from diffusion_operator.core.step import Event

from .cluster import LiveChild, Unreadable
from .connection import Connection
from .errors import InvalidError, NotFoundError
from .events import EventRecorder
from .known_children import KnownChildren, live_child
from .own_writes import OwnWrites
from .pods import is_stuck, waiting_for

_MODELS = f"/apis/{labels.API_VERSION}"
_COLLECTIONS = {
    ChildKind.CONFIG_MAP: ("/api/v1", "configmaps"),
    ChildKind.SERVICE: ("/api/v1", "services"),
    ChildKind.DEPLOYMENT: ("/apis/apps/v1", "deployments"),
    ChildKind.JOB: ("/apis/batch/v1", "jobs"),
}


class KubernetesCluster:
    """The API server behind a connection.

    `own_writes` hears of statuses and children that were written. `known` are the children that watches tell of: without
    watches leave it away, and they are listed each time.
    """

    def __init__(
        self, connection: Connection, *, own_writes: OwnWrites | None = None, known: KnownChildren | None = None
    ) -> None:
        self._connection = connection
        self._own_writes = own_writes or OwnWrites()
        self._known = known
        self._events = EventRecorder(connection)

    async def read_model(self, namespace: str, name: str) -> DiffusionModel | Unreadable:
        """The resource as it is now."""
        try:
            raw = await self._connection.request("GET", _model_path(namespace, name), what=f"read {namespace}/{name}")
        except NotFoundError:
            if self._known is not None:
                self._known.forget((namespace, name))
            raise
        try:
            return parse(raw)
        except ValidationError as error:
            return Unreadable(resource=_status_of(raw, what=f"{namespace}/{name}"), message=_first_errors(error))

    async def live_children(self, namespace: str, model: str) -> tuple[LiveChild, ...]:
        """All objects that carry our labels for this resource."""
        if self._known is None:
            return await self._list_children(namespace, model)
        key = (namespace, model)
        known = self._known.of(key)
        if known is None:
            listing = self._known.listing(key)
            known = await self._list_children(namespace, model)
            self._known.listed(listing, known)
        return known

    async def _list_children(self, namespace: str, model: str) -> tuple[LiveChild, ...]:
        selector = f"{labels.MODEL}={model},{labels.MANAGED_BY}={labels.MANAGED_BY_VALUE}"
        found = []
        for kind in ChildKind:
            answer = await self._connection.request(
                "GET",
                _collection(kind, namespace),
                what=f"list {kind}s of {namespace}/{model}",
                query={"labelSelector": selector},
            )
            # Items of a list do not say what they are.
            what = {"apiVersion": answer["apiVersion"], "kind": kind.value}
            found += [live_child(kind, what | item) for item in answer["items"]]
        return tuple(found)

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
        answer = await self._connection.request(
            "PUT",
            f"{_model_path(metadata.namespace, metadata.name)}/status",
            what=f"write the status of {metadata.namespace}/{metadata.name}",
            query={"fieldManager": labels.FIELD_MANAGER},
            body=body,
        )
        self._own_writes.note(answer["metadata"])
        return ObjectMeta.model_validate(answer["metadata"])

    async def apply(self, child: Child) -> None:
        """Make an object what its manifest says. Fields of ours that someone else changed are taken back."""
        answer = await self._connection.request(
            "PATCH",
            f"{_collection(child.kind, child.namespace)}/{child.name}",
            what=f"apply {child.kind} {child.namespace}/{child.name}",
            query={"fieldManager": labels.FIELD_MANAGER, "force": "true"},
            body=child.manifest,
            content_type="application/apply-patch+yaml",
        )
        self._own_writes.note(answer["metadata"])
        if self._known is not None:
            self._known.tell((child.namespace, child.manifest["metadata"]["labels"][labels.MODEL]), child.kind, answer)

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
            model = child.manifest["metadata"]["labels"][labels.MODEL]
            item = child.manifest if is_gone else answer
            self._known.tell((namespace, model), child.kind, item, is_gone=is_gone)

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
