"""Who was alive until when: a Lease that the process renews as long as it looks.

Observed time is counted in memory between two writes of a status. The Lease proves, to the process that comes next, how
long the one before was there to count.
"""

import hashlib
from collections.abc import Collection
from dataclasses import dataclass
from datetime import UTC, datetime

from diffusion_operator.api import labels

from . import clock
from .connection import Connection
from .errors import NotFoundError

RENEW_SECONDS = 30.0
_DURATION_SECONDS = 60


@dataclass(frozen=True, slots=True)
class Alive:
    """A process looked from `since` until `until`."""

    since: datetime
    until: datetime


class LifeLease:
    """The Lease of the operator that watches these namespaces (empty: all of them).

    Two operators that watch different namespaces may live in one: each has its own record.
    """

    def __init__(
        self, connection: Connection, *, namespace: str, holder: str, watch_namespaces: Collection[str] = ()
    ) -> None:
        self._connection = connection
        self._holder = holder
        scope = hashlib.sha256(",".join(sorted(watch_namespaces)).encode()).hexdigest()[:8]
        self._name = f"{labels.FIELD_MANAGER}-{scope}" if watch_namespaces else labels.FIELD_MANAGER
        self._path = f"/apis/coordination.k8s.io/v1/namespaces/{namespace}/leases/{self._name}"
        self._since = clock.now()

    async def read(self) -> Alive | None:
        """What the process before left behind; None when there was none.

        Raises:
            AdapterError: it cannot be read.
        """
        try:
            found = await self._connection.request("GET", self._path, what=f"read Lease {self._name}")
        except NotFoundError:
            return None
        spec = found.get("spec", {})
        since, until = _time(spec.get("acquireTime")), _time(spec.get("renewTime"))
        return Alive(since, until) if since and until else None

    async def renew(self) -> None:
        """Say that this process is alive.

        Raises:
            AdapterError: it cannot be written.
        """
        await self._connection.request(
            "PATCH",
            self._path,
            what=f"renew Lease {self._name}",
            query={"fieldManager": labels.FIELD_MANAGER, "force": "true"},
            body={
                "apiVersion": "coordination.k8s.io/v1",
                "kind": "Lease",
                "metadata": {"name": self._name},
                "spec": {
                    "holderIdentity": self._holder,
                    "acquireTime": _text(self._since),
                    "renewTime": _text(clock.now()),
                    "leaseDurationSeconds": _DURATION_SECONDS,
                },
            },
            content_type="application/apply-patch+yaml",
        )


def _text(time: datetime) -> str:
    return time.strftime("%Y-%m-%dT%H:%M:%S.%fZ")


def _time(text: str | None) -> datetime | None:
    return datetime.fromisoformat(text).astimezone(UTC) if text else None
