"""Requests from Triton into the engine, with as many in flight as the engine has rows."""

import threading
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from diffusion_worker.config import EngineConfig
from diffusion_worker.engine import Engine, load_engine
from diffusion_worker.triton.delivery import Delivery, Sender, Stream
from diffusion_worker.triton.heartbeat import Heartbeat
from diffusion_worker.triton.metrics import WorkerMetrics
from diffusion_worker.triton.requests import UnreadableRequestError, read_parameters, read_request
from diffusion_worker.wire import ErrorEvent, ScoreRequest

_SLOT_POLL_SECONDS = 0.1


class Backend:
    """One engine behind Triton. `family` is Triton's `MetricFamily` class."""

    def __init__(
        self,
        config: EngineConfig,
        *,
        family: Any,
        heartbeat: Path | None,
        load: Callable[..., Engine] = load_engine,
    ) -> None:
        self._revision = config.revision
        self._slots = threading.BoundedSemaphore(config.max_batch_size)
        metrics = WorkerMetrics(family, config)
        self._delivery = Delivery(metrics, on_end=self._slots.release)
        self._engine = load(config, observer=self._delivery)
        self._delivery.memory_measured(self._engine.measured)
        self._heartbeat = Heartbeat(self._engine, heartbeat)

    @property
    def ready(self) -> bool:
        """Whether requests can be answered."""
        return self._engine.alive and self._delivery.alive

    def accept(self, elements: Sequence[bytes], sender: Sender, *, parameters: str = "{}") -> None:
        """Submit the request in a tensor's elements; never raises for a bad one. `parameters` are Triton's, in JSON.

        Blocks while all slots are taken, so that Triton's queue is the waiting room. What would be handed over only
        when that is empty must not block those that come after it: scores wait in the engine until it has time for
        them, and background requests are refused there when all rows are taken. Neither takes a slot.
        """
        said = read_parameters(parameters)
        stream = Stream(sender, traceparent=said.traceparent)
        if said.revision not in (None, self._revision):
            self._delivery.refuse(stream, _wrong_revision(said.revision, here=self._revision))
            return
        try:
            request = read_request(elements)
        except UnreadableRequestError as error:
            self._delivery.refuse(stream, error.event)
            return
        stream.request_id = request.request_id
        if isinstance(request, ScoreRequest):
            stream.is_score = True
            stream.handle = self._engine.submit_score(
                request, self._delivery.open(stream), traceparent=said.traceparent
            )
            return
        while not (request.background or self._takes_one_more()):
            if sender.is_cancelled():
                stream.cancelled = True
                self._delivery.refuse(stream, ErrorEvent(code="cancelled", message="the request was cancelled"))
                return
        stream.has_slot = not request.background
        stream.submitted = time.monotonic()
        stream.handle = self._engine.submit(request, self._delivery.open(stream), traceparent=said.traceparent)

    def _takes_one_more(self) -> bool:
        """Wait a moment for a slot, and for the rows before to have memory: what waits shall wait in Triton's queue."""
        has_room = self._engine.wait_for_room(_SLOT_POLL_SECONDS)
        return has_room and self._slots.acquire(timeout=_SLOT_POLL_SECONDS)

    def close(self) -> None:
        """Let what runs come to its end, then stop everything."""
        self._heartbeat.stop()
        self._engine.close(drain=True)
        self._delivery.close()


def _wrong_revision(wanted: str | None, *, here: str) -> ErrorEvent:
    """An address can be another pod's by the time that a request comes to it."""
    message = f"revision {here} is served here, not {wanted}; look up where {wanted} is served now"
    return ErrorEvent(code="wrong_revision", message=message)
