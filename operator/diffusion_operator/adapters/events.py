"""Events about a resource, for `kubectl describe`. One that repeats within ten minutes counts up instead of piling up."""

import time
from collections import OrderedDict
from dataclasses import dataclass
from datetime import datetime

from diffusion_operator.api import labels
from diffusion_operator.api.models import ObjectMeta
from diffusion_operator.core.step import Event

from . import clock
from .connection import Connection
from .errors import NotFoundError

_REMEMBERED = 4096
_SAME_SECONDS = 600
# The API server takes no longer message.
_LONGEST_MESSAGE = 1024


@dataclass(slots=True)
class _Written:
    name: str
    count: int
    at: float


class EventRecorder:
    """Writes events."""

    def __init__(self, connection: Connection) -> None:
        self._connection = connection
        self._written: OrderedDict[tuple[str, str, str], _Written] = OrderedDict()

    async def record(self, metadata: ObjectMeta, event: Event) -> None:
        """Write an event, or count one that was written before."""
        key = (metadata.uid, event.reason, event.message)
        earlier = self._written.get(key)
        if earlier and clock.monotonic() - earlier.at < _SAME_SECONDS:
            try:
                await self._count(metadata, earlier)
            except NotFoundError:
                pass  # it was cleaned up in the meantime
            else:
                return
        self._written[key] = await self._create(metadata, event)
        self._written.move_to_end(key)
        while len(self._written) > _REMEMBERED:
            self._written.popitem(last=False)

    async def _count(self, metadata: ObjectMeta, earlier: _Written) -> None:
        earlier.count += 1
        earlier.at = clock.monotonic()
        await self._connection.request(
            "PATCH",
            f"/api/v1/namespaces/{metadata.namespace}/events/{earlier.name}",
            what=f"count event {earlier.name}",
            body={"count": earlier.count, "lastTimestamp": _text(clock.now())},
            content_type="application/merge-patch+json",
        )

    async def _create(self, metadata: ObjectMeta, event: Event) -> _Written:
        name = f"{metadata.name}.{time.time_ns():x}"
        stamp = _text(clock.now())
        await self._connection.request(
            "POST",
            f"/api/v1/namespaces/{metadata.namespace}/events",
            what=f"write event {event.reason}",
            body={
                "apiVersion": "v1",
                "kind": "Event",
                "metadata": {"name": name, "namespace": metadata.namespace},
                "involvedObject": {
                    "apiVersion": labels.API_VERSION,
                    "kind": labels.KIND,
                    "name": metadata.name,
                    "namespace": metadata.namespace,
                    "uid": metadata.uid,
                    "resourceVersion": metadata.resource_version,
                },
                "type": "Warning" if event.is_warning else "Normal",
                "reason": event.reason,
                "message": event.message[:_LONGEST_MESSAGE],
                "count": 1,
                "firstTimestamp": stamp,
                "lastTimestamp": stamp,
                "source": {"component": labels.FIELD_MANAGER},
                "reportingComponent": labels.FIELD_MANAGER,
            },
        )
        return _Written(name=name, count=1, at=clock.monotonic())


def _text(time_: datetime) -> str:
    return time_.strftime("%Y-%m-%dT%H:%M:%SZ")
