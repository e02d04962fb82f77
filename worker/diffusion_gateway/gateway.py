"""The state that all requests share: table in force, pods, limits, whether we are about to leave."""

import random
import time
from collections.abc import Callable
from pathlib import Path

from diffusion_operator.api.status import RouteArm

from .breakers import Breakers
from .dispatch import Dispatcher
from .external import Endpoints
from .keys import Keys
from .metrics import Metrics
from .openai.errors import overloaded
from .overload import ServiceRate, retry_after_seconds
from .pairs import ArSide, Pairs, WorkerArSide
from .pool import WorkerPool
from .routes import Model, Random, Table
from .settings import Settings
from .tally import Tally
from .trace import Trace
from .tracing import Tracing

# Bodies in flight together may be as large as this many of the largest. A request holds up to eight times its body, as objects
# and as what is sent to the worker: with the chart's defaults that is half of the pod's memory.
_LARGEST_BODIES = 16
# A request may ask for 32 choices, each a stream to a pod; together they may be this many times the requests.
_CHOICES_PER_REQUEST = 4


class Gateway:
    """One gateway process. Everything runs on one event loop, so plain attributes are consistent."""

    def __init__(
        self,
        settings: Settings,
        *,
        random_source: Random = random.random,
        sample_source: Random = random.random,
    ) -> None:
        """`random_source` draws arms, `sample_source` the answers whose quality is measured. Raises `KeysError`."""
        self.settings = settings
        self.metrics = Metrics()
        self.endpoints = Endpoints()
        self.pool = WorkerPool(connect=self.endpoints.connect)
        self.breakers = Breakers(settings.breaker)
        self.metrics.arms.open_breakers = self.breakers.open_among
        self.metrics.arms.endpoint_ready = self.endpoints.is_ready
        self.table = Table()
        self.pairs = Pairs(
            metrics=self.metrics.pairs,
            ar_side=self._ar_side,
            can_score=lambda drawn: self.endpoints.can_score(drawn.model, drawn.ar, drawn.request),
            random=sample_source,
        )
        self.dispatcher = Dispatcher(
            pool=self.pool,
            breakers=self.breakers,
            metrics=self.metrics,
            silence_seconds=settings.silence_seconds,
            random=random_source,
            refused=self.pairs.watch_refused,
        )
        self.keys = Keys(Path(settings.api_keys_dir)) if settings.api_keys_dir else None
        """None: everyone may ask."""
        self.tracing = Tracing(settings.otlp_endpoint, sample_percent=settings.trace_sample_percent)
        self.draining = False
        self.synced: Callable[[], bool] = lambda: False
        """Whether the table was read from the API server."""
        self._in_flight = 0
        self._held_bytes = 0
        self._held_choices = 0
        self._rate = ServiceRate(time.monotonic())
        """Of completions."""

    def use_table(self, table: Table) -> None:
        """Put a new table in force, for all requests from now on."""
        self.table = table
        self.endpoints.use_table(table)
        targets = table.all_targets()
        self.pool.keep_only(targets)
        self.breakers.keep_only(targets)
        self.metrics.show_table(table)

    def not_ready_because(self) -> str | None:
        """Why no requests should come here. None: they should."""
        if self.draining:
            return "shutting down"
        return None if self.synced() else "the list of DiffusionModels and EndpointSlices has not been read yet"

    def ready_pods(self, model: Model, arm: RouteArm) -> int:
        """How many pods of an arm can be asked; a server that is not ours is as one pod."""
        return int(self.endpoints.is_ready(model, arm)) if arm.endpoint else len(self.table.targets(model, arm))

    def admit(self, trace: Trace) -> None:
        """Count a completion in. Raises `ApiError` (429) when there are too many."""
        if self._in_flight >= self.settings.max_in_flight:
            raise overloaded(
                f"{self._in_flight} requests are in flight here, which is the limit; try again later.",
                retry_after_seconds=self._retry_after_seconds(),
            )
        self._in_flight += 1
        trace.admitted = True
        self.metrics.requests.in_flight.set(self._in_flight)

    def hold(self, trace: Trace, size: int) -> None:
        """Count bytes of a completion's body in. Raises `ApiError` (429) when the bodies in flight are too large together."""
        limit = _LARGEST_BODIES * self.settings.max_body_bytes
        if self._held_bytes + size > limit:
            raise overloaded(
                f"The requests in flight here are {self._held_bytes} bytes long, and {limit} is the limit; try again later.",
                retry_after_seconds=self._retry_after_seconds(),
            )
        self._held_bytes += size
        trace.held_bytes += size

    def hold_choices(self, trace: Trace, choices: int) -> None:
        """Count a completion's choices in. Raises `ApiError` (429) when those in flight are too many together."""
        limit = _CHOICES_PER_REQUEST * self.settings.max_in_flight
        if self._held_choices and self._held_choices + choices > limit:
            raise overloaded(
                f"The requests in flight here ask for {self._held_choices} choices, and {limit} is the limit; try again later.",
                retry_after_seconds=self._retry_after_seconds(),
            )
        self._held_choices += choices
        trace.held_choices = choices

    def finish(self, trace: Trace) -> None:
        """A request has ended, in whatever way."""
        self._held_bytes -= trace.held_bytes
        self._held_choices -= trace.held_choices
        if trace.admitted:
            self._in_flight -= 1
            self._rate.count(time.monotonic())
            self.metrics.requests.in_flight.set(self._in_flight)
        if trace.is_completion:
            trace.count(self.metrics)
        trace.log()
        self.tracing.end(trace)

    def _ar_side(self, model: Model, arm: RouteArm) -> ArSide:
        """The pods of an AR arm, as they are when they are asked, or the server that it is."""

        def timed(tally: Tally, asked_at: float) -> None:
            self.metrics.answers.count_time(model, arm, tally, asked_at=asked_at)

        return WorkerArSide(
            pool=self.pool, targets=lambda: self.table.targets(model, arm), revision=arm.revision, timed=timed
        )

    def _retry_after_seconds(self) -> int:
        return retry_after_seconds(rows=self._in_flight, rows_per_second=self._rate.per_second(time.monotonic()))
