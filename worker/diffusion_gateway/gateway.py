"""The state that all requests share: table in force, pods, limits, whether we are about to leave."""

import random
from collections.abc import Callable

from .dispatch import Dispatcher
from .metrics import Metrics
from .openai.errors import overloaded
from .pool import WorkerPool
from .routes import Random, Table
from .settings import Settings
from .trace import Trace


class Gateway:
    """One gateway process. Everything runs on one event loop, so plain attributes are consistent."""

    def __init__(self, settings: Settings, *, random_source: Random = random.random) -> None:
        """`random_source` draws arms."""
        self.settings = settings
        self.metrics = Metrics()
        self.pool = WorkerPool()
        self.table = Table()
        self.dispatcher = Dispatcher(
            pool=self.pool, metrics=self.metrics, silence_seconds=settings.silence_seconds, random=random_source
        )
        self.draining = False
        self.synced: Callable[[], bool] = lambda: False
        """Whether the table was read from the API server."""
        self._in_flight = 0

    def use_table(self, table: Table) -> None:
        """Put a new table in force, for all requests from now on."""
        self.table = table
        self.pool.keep_only(table.all_targets())
        self.metrics.show_table(table)

    def not_ready_because(self) -> str | None:
        """Why no requests should come here. None: they should."""
        if self.draining:
            return "shutting down"
        return None if self.synced() else "the list of DiffusionModels and EndpointSlices has not been read yet"

    def admit(self, trace: Trace) -> None:
        """Count a completion in. Raises `ApiError` (429) when there are too many."""
        if self._in_flight >= self.settings.max_in_flight:
            raise overloaded(f"{self._in_flight} requests are in flight here, which is the limit; try again later.")
        self._in_flight += 1
        trace.admitted = True
        self.metrics.in_flight.set(self._in_flight)

    def finish(self, trace: Trace) -> None:
        """A request has ended, in whatever way."""
        if trace.admitted:
            self._in_flight -= 1
            self.metrics.in_flight.set(self._in_flight)
        if trace.is_completion:
            trace.count(self.metrics)
        trace.log()
