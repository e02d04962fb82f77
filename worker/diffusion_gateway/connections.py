"""Connections that say nothing, or too slowly: each is given a time, and the idle ones make room for newcomers.

uvicorn limits neither how long the headers of a request may take nor how many connections there are, and waits for ever until a
client has read what is left when it closes a connection.
"""

import asyncio
import json
import resource
import time
from collections.abc import Callable
from typing import Any

import h11
import structlog
from uvicorn.protocols.http.h11_impl import H11Protocol

from .metrics.connections import Closed
from .openai.errors import ApiError

REQUEST_SECONDS = 30.0
"""From the connection, or from the first byte of the next request, to the end of the headers."""
KEEP_ALIVE_SECONDS = 75.0
"""Longer than usual clients and load balancers keep a connection, so that it is not closed under a request of theirs."""
FAREWELL_SECONDS = 60.0
"""From when we close a connection until the client has read what was left: at most an answer, also over a slow line."""
SOCKET_SEND_BYTES = 128 * 2**10
"""The kernel would keep up to 4 MiB for each client that does not read."""
_SWEEP_SECONDS = 1.0
_SPARE_FILES = 512  # for pods, the API server and logs
_NO_HTTP = ApiError(400, "This is not valid HTTP/1.1, or its headers are larger than 16 KiB.", code="invalid_http")
_log = structlog.get_logger()


class Connections:
    """All connections of one port."""

    def __init__(
        self,
        *,
        limit: int,
        count_closed: Callable[[Closed], None] = lambda _: None,
        request_seconds: float = REQUEST_SECONDS,
        keep_alive_seconds: float = KEEP_ALIVE_SECONDS,
        farewell_seconds: float = FAREWELL_SECONDS,
    ) -> None:
        """`limit`: connections at the same time."""
        self.limit = limit
        self._count_closed = count_closed
        self._request_seconds = request_seconds
        self._keep_alive_seconds = keep_alive_seconds
        self._farewell_seconds = farewell_seconds
        self._all: set[Connection] = set()
        self._waiting: dict[Connection, None] = {}
        """Without a request in work, those that are longest so first."""

    def __len__(self) -> int:
        return len(self._all)

    def protocol(self, *args: Any, **kwargs: Any) -> "Connection":
        """What uvicorn makes for each connection."""
        return Connection(self, *args, **kwargs)

    def add(self, connection: "Connection") -> None:
        """Take a newcomer in. If there are too many, the one that has waited longest for a request goes."""
        self._all.add(connection)
        self._waiting[connection] = None
        if len(self._all) > self.limit:
            oldest = next(iter(self._waiting))
            self.remove(oldest)  # at once: asyncio tells only later that it is lost, and may accept a thousand before
            oldest.transport.abort()
            self._count_closed(Closed.CROWDED_OUT)

    def remove(self, connection: "Connection") -> None:
        """It is closed."""
        self._all.discard(connection)
        self._waiting.pop(connection, None)

    def note(self, connection: "Connection") -> None:
        """Something has happened on it."""
        if connection.in_work:
            self._waiting.pop(connection, None)
        else:
            self._waiting.setdefault(connection)

    async def sweep(self) -> None:
        """Close what has had its time. Runs until it is cancelled."""
        while True:
            await asyncio.sleep(_SWEEP_SECONDS)
            now = time.monotonic()
            for connection in list(self._all):
                reason = self._over_because(connection, now)
                if reason is not None:
                    connection.transport.abort()
                    self._count_closed(reason)

    def _over_because(self, connection: "Connection", now: float) -> Closed | None:
        if connection.transport.is_closing():
            connection.closing_since = connection.closing_since or now
            return Closed.UNREAD if now - connection.closing_since > self._farewell_seconds else None
        if connection.in_work:
            return None
        waited = now - connection.waits_since
        if connection.expects_headers:
            return Closed.SLOW_REQUEST if waited > self._request_seconds else None
        return Closed.IDLE if waited > self._keep_alive_seconds else None


class Connection(H11Protocol):
    """uvicorn's, which tells what it waits for and since when."""

    def __init__(self, connections: Connections, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self._watch = connections
        self.waits_since = time.monotonic()
        self.expects_headers = True
        """A request has begun to arrive, or is due because the connection is new."""
        self.closing_since: float | None = None

    @property
    def in_work(self) -> bool:
        """A request is being answered, which has a deadline of its own."""
        return self.cycle is not None and not self.cycle.response_complete

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        """asyncio."""
        super().connection_made(transport)
        self._watch.add(self)

    def connection_lost(self, exc: Exception | None) -> None:
        """asyncio."""
        self._watch.remove(self)
        super().connection_lost(exc)

    def data_received(self, data: bytes) -> None:
        """asyncio."""
        if not self.in_work and not self.expects_headers:
            self.expects_headers, self.waits_since = True, time.monotonic()
        super().data_received(data)
        self._watch.note(self)

    def send_400_response(self, msg: str) -> None:  # noqa: ARG002 - uvicorn says no more than this
        """uvicorn: what came is no HTTP. In OpenAI's form, and the connection ends."""
        if self.conn.our_state not in (h11.IDLE, h11.SEND_RESPONSE):
            self.transport.abort()  # in the middle of an answer there is no place for an error
            return
        body = json.dumps(_NO_HTTP.body()).encode()
        headers = {"content-type": "application/json", "content-length": str(len(body)), "connection": "close"}
        answer = h11.Response(status_code=_NO_HTTP.status, headers=list(headers.items()), reason=b"Bad Request")
        for event in (answer, h11.Data(data=body), h11.EndOfMessage()):
            self.transport.write(self.conn.send(event) or b"")
        self.transport.close()

    def on_response_complete(self) -> None:
        """uvicorn."""
        self.expects_headers, self.waits_since = False, time.monotonic()
        super().on_response_complete()
        self._watch.note(self)


def allowed_connections(wanted: int) -> int:
    """As many as wanted, or as the process may open. Asks the kernel for as many files as the process may have."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    needed = wanted + _SPARE_FILES
    if soft == resource.RLIM_INFINITY or soft >= needed:
        return wanted
    raised = needed if hard == resource.RLIM_INFINITY else min(needed, hard)
    resource.setrlimit(resource.RLIMIT_NOFILE, (raised, hard))
    if raised == needed:
        return wanted
    allowed = max(raised - _SPARE_FILES, raised // 2)
    _log.warning("fewer connections than wanted: the process may not open more files", wanted=wanted, allowed=allowed)
    return allowed
