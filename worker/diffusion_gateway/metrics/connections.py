"""Who is connected, and who was turned away before a request could be read."""

from collections.abc import Callable
from enum import StrEnum

from .families import Families


class Closed(StrEnum):
    """Why a connection was closed that the client had not ended."""

    IDLE = "idle"
    """No request came for too long."""
    SLOW_REQUEST = "slow_request"
    """The headers of a request took too long."""
    UNREAD = "unread"
    """The client did not fetch the rest of an answer."""
    CROWDED_OUT = "crowded_out"
    """Too many connections; this one had waited longest for a request."""


class ConnectionMetrics:
    """Of the port for clients."""

    def __init__(self, families: Families) -> None:
        self._connections = families.gauge("connections", "Open connections of clients.")
        self._closed = families.counter(
            "closed_connections",
            "Connections that the gateway closed although their clients had not ended.",
            ("reason",),
        )
        self.refused_keys = families.counter(
            "refused_keys", "Requests without a valid API key, where keys are asked for."
        )
        for reason in Closed:
            self._closed.labels(reason.value)

    def show(self, connections: Callable[[], int]) -> None:
        """Show how many there are, whenever somebody asks."""
        self._connections.set_function(connections)

    def count_closed(self, reason: Closed) -> None:
        """One was closed."""
        self._closed.labels(reason.value).inc()
