"""What sizing asks of the cluster: what Jobs found, which GPUs nodes have, what pods took."""

import asyncio
from collections import OrderedDict
from typing import Any, Protocol, Self

import aiohttp
from prometheus_client.parser import text_string_to_metric_families

from diffusion_operator.api import labels
from diffusion_operator.api.models import MeasuredMemory
from diffusion_operator.core.sized.observation import ObservedInspection, ObservedNodes

from . import clock
from .cluster import LiveChild
from .connection import Connection
from .errors import AdapterError, translated
from .pods import ended, waiting_for

_NODES_SECONDS = 60.0
# One that could not be asked is asked again with the next passes, but not with each.
_ASKED_SECONDS = 60.0
_REMEMBERED = 4096
_TIMEOUT = aiohttp.ClientTimeout(total=2)
_MEASURED = "dlm_measured_bytes"
# Labels are all that we want of nodes, which have a lot more.
_METADATA_ONLY = "application/json;as=PartialObjectMetadataList;g=meta.k8s.io;v=v1"


class SizingSource(Protocol):
    """Where observations of checkpoints, nodes and memory come from."""

    async def inspection(self, job: LiveChild, *, namespace: str, model: str) -> ObservedInspection:
        """What became of a Job.

        Raises:
            AdapterError: the API server does not say.
        """
        ...

    async def nodes(self, selector: str) -> ObservedNodes:
        """The GPUs of the nodes with these labels. Never raises: what is not known has its reason."""
        ...

    async def measured(self, namespace: str, *, model: str, revision: str) -> MeasuredMemory | None:
        """What a ready pod of a revision took; None where none says it now. Never raises, and takes two seconds at most."""
        ...


class KubernetesSizing:
    """The API server behind a connection, and the metrics ports of pods."""

    def __init__(self, connection: Connection) -> None:
        self._connection = connection
        self._http = aiohttp.ClientSession(timeout=_TIMEOUT)
        self._nodes: OrderedDict[str, tuple[float, ObservedNodes]] = OrderedDict()
        self._asked: OrderedDict[tuple[str, str, str], float] = OrderedDict()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self._http.close()

    async def inspection(self, job: LiveChild, *, namespace: str, model: str) -> ObservedInspection:
        """What became of a Job."""
        pods = await self._pods(namespace, f"{labels.MODEL}={model},{labels.INSPECTION}={job.revision}")
        words = [word for word in map(ended, pods) if word is not None]
        if words:
            succeeded, message = words[0]
            return ObservedInspection(has_ended=True, succeeded=succeeded, message=message)
        conditions = {
            condition["type"]: condition
            for condition in job.manifest.get("status", {}).get("conditions", ())
            if condition["status"] == "True"
        }
        if failed := conditions.get("Failed"):
            return ObservedInspection(has_ended=True, message=f"{failed.get('reason')}: {failed.get('message')}")
        if "Complete" in conditions:
            return ObservedInspection(has_ended=True, message="its pod was removed before it was read")
        return ObservedInspection(waiting_for=waiting_for(pods, deployment={}))

    async def nodes(self, selector: str) -> ObservedNodes:
        """The GPUs of the nodes with these labels, asked once a minute at most."""
        at, known = self._nodes.get(selector, (0.0, None))
        if known is not None and clock.monotonic() - at < _NODES_SECONDS:
            return known
        try:
            answer = await self._connection.request(
                "GET",
                "/api/v1/nodes",
                what="list nodes for their GPUs",
                # From the API server's memory: a minute old is good enough.
                query={"labelSelector": ",".join(filter(None, (labels.GPU_MEMORY, selector))), "resourceVersion": "0"},
                accept=_METADATA_ONLY,
            )
            found = _smallest(answer["items"] or [])  # an empty list of metadata alone is null
        except AdapterError as error:
            found = ObservedNodes(why=str(error))
        self._nodes[selector] = (clock.monotonic(), found)
        _keep_newest(self._nodes)
        return found

    async def measured(self, namespace: str, *, model: str, revision: str) -> MeasuredMemory | None:
        """What a ready pod of a revision took. A revision is asked once a minute at most, until one answers."""
        key = (namespace, model, revision)
        if clock.monotonic() - self._asked.get(key, -_ASKED_SECONDS) < _ASKED_SECONDS:
            return None
        self._asked[key] = clock.monotonic()
        _keep_newest(self._asked)
        try:
            async with asyncio.timeout(_TIMEOUT.total):
                pods = await self._pods(namespace, f"{labels.MODEL}={model},{labels.REVISION}={revision}")
                address = next((pod["status"]["podIP"] for pod in pods if _is_ready(pod)), None)
                return _read(await self._metrics(address)) if address else None
        except (AdapterError, TimeoutError, ValueError):
            return None

    async def _pods(self, namespace: str, selector: str) -> list[dict[str, Any]]:
        answer = await self._connection.request(
            "GET",
            f"/api/v1/namespaces/{namespace}/pods",
            what=f"list pods with {selector} in {namespace}",
            query={"labelSelector": selector},
        )
        items: list[dict[str, Any]] = answer["items"]
        return items

    async def _metrics(self, address: str) -> str:
        host = f"[{address}]" if ":" in address else address
        with translated(f"read the metrics of pod {address}"):
            async with self._http.get(f"http://{host}:{labels.METRICS_PORT}/metrics") as response:
                response.raise_for_status()
                return await response.text()


def _smallest(nodes: list[dict[str, Any]]) -> ObservedNodes:
    texts = [node["metadata"].get("labels", {}).get(labels.GPU_MEMORY, "") for node in nodes]
    sizes = [int(text) for text in texts if text.isascii() and text.isdigit() and int(text) > 0]
    if not sizes:
        return ObservedNodes(why=f"no node that pods may run on has the label {labels.GPU_MEMORY}")
    return ObservedNodes(gpu_memory_bytes=min(sizes) * 1024**2)


def _is_ready(pod: dict[str, Any]) -> bool:
    status = pod.get("status", {})
    return "podIP" in status and any(
        condition["type"] == "Ready" and condition["status"] == "True" for condition in status.get("conditions", ())
    )


def _read(text: str) -> MeasuredMemory | None:
    """The parts of one pod; None when it says nothing of its memory."""
    parts = {
        sample.labels.get("part", ""): int(sample.value)
        for family in text_string_to_metric_families(text)
        for sample in family.samples
        if sample.name == _MEASURED
    }
    parts = {part: size for part, size in parts.items() if part in MeasuredMemory.model_fields and size >= 0}
    return MeasuredMemory(**parts) if "total" in parts else None


def _keep_newest(memory: OrderedDict[Any, Any]) -> None:
    while len(memory) > _REMEMBERED:
        memory.popitem(last=False)
