"""The thread that talks to Triton, so that the engine never waits for it: answers, cancellations, metrics."""

import logging
import queue
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial
from typing import Protocol

from diffusion_worker.engine import Handle, Pass, RowOutcome
from diffusion_worker.engine.memory_check import MeasuredBytes
from diffusion_worker.log_lines import request_fields
from diffusion_worker.triton.metrics import WorkerMetrics
from diffusion_worker.wire import BlockEvent, DraftEvent, ErrorEvent, FinishEvent, ScoreEvent

Event = BlockEvent | DraftEvent | FinishEvent | ScoreEvent | ErrorEvent

_POLL_SECONDS = 0.05  # how often running requests are asked whether their client is still there

_log = logging.getLogger(__name__)


class Sender(Protocol):
    """What goes back to one client; wraps Triton's response sender."""

    def send(self, event: Event, *, final: bool) -> None:
        """Send one event; `final`: the last one."""

    def end(self) -> None:
        """End the stream without a further event."""

    def is_cancelled(self) -> bool:
        """Whether the client went away."""


@dataclass(eq=False)
class Stream:
    """One request in flight."""

    sender: Sender | None  # dropped at the end at once: it keeps the model loaded
    request_id: str = ""
    traceparent: str | None = None
    is_score: bool = False
    has_slot: bool = False  # one of those that requests wait for
    arrived: float = field(default_factory=time.monotonic)
    submitted: float = 0.0
    handle: Handle | None = None
    cancelled: bool = False
    has_block: bool = False
    emitted: int = 0  # events that the engine has given
    delivered: int = 0  # and those of them that are out

    @property
    def log_fields(self) -> dict[str, str]:
        """What names the request in a log line."""
        return request_fields(self.request_id, self.traceparent)


class Delivery:
    """Delivers events of any thread in order, from a thread of its own; also the engine's observer.

    `on_end` is called in that thread each time a stream that has a slot has ended.
    """

    def __init__(self, metrics: WorkerMetrics, *, on_end: Callable[[], None]) -> None:
        self._metrics = metrics
        self._on_end = on_end
        self._jobs: queue.SimpleQueue[Callable[[], None] | None] = queue.SimpleQueue()
        self._streams: set[Stream] = set()  # touched by the thread only
        self._thread = threading.Thread(target=self._run, name="delivery", daemon=True)
        self._thread.start()

    @property
    def alive(self) -> bool:
        """Whether the thread runs."""
        return self._thread.is_alive()

    def open(self, stream: Stream) -> Callable[[Event], None]:
        """Take a stream in; returns what the engine calls for each of its events."""
        self._jobs.put(lambda: self._opened(stream))
        return partial(self._take, stream)

    def _take(self, stream: Stream, event: Event) -> None:
        """Queue an event of the engine; a draft only when everything before it is out."""
        if isinstance(event, DraftEvent) and stream.emitted != stream.delivered:
            return
        stream.emitted += 1
        self._jobs.put(lambda: self._deliver(stream, event))

    def refuse(self, stream: Stream, event: ErrorEvent) -> None:
        """End a stream that was never opened."""
        self._jobs.put(lambda: self._end(stream, event))

    def close(self) -> None:
        """Deliver what is left and end the thread."""
        self._jobs.put(None)
        self._thread.join()

    def pass_done(self, done: Pass) -> None:
        """As an Observer of the engine."""
        self._jobs.put(lambda: self._metrics.pass_done(done))

    def block_committed(self, block: BlockEvent) -> None:
        """As an Observer of the engine."""
        self._jobs.put(lambda: self._metrics.block_committed(block))

    def memory_measured(self, measured: MeasuredBytes | None) -> None:
        """What the largest step took at start; None: it was not run."""
        self._jobs.put(lambda: self._metrics.memory_measured(measured))

    def row_ended(self, outcome: RowOutcome) -> None:
        """As an Observer of the engine; requests are counted from their last event instead."""

    # Below here everything runs in the delivery thread.

    def _run(self) -> None:
        poll_at = time.monotonic()
        while True:
            try:
                job = self._jobs.get(timeout=_POLL_SECONDS if self._streams else None)
            except queue.Empty:
                job = self._poll
            if job is None:
                return
            self._do(job)
            if time.monotonic() >= poll_at:
                self._do(self._poll)
                poll_at = time.monotonic() + _POLL_SECONDS
            del job  # it holds a stream

    def _do(self, job: Callable[[], None]) -> None:
        try:
            job()
        except Exception:  # noqa: BLE001 (one client's fault must not end the thread that serves all)
            _log.exception("a delivery failed")

    def _opened(self, stream: Stream) -> None:
        self._streams.add(stream)
        self._show_rows()

    def _poll(self) -> None:
        for stream in self._streams:
            self._do(partial(_cancel_if_gone, stream))

    def _deliver(self, stream: Stream, event: Event) -> None:
        if isinstance(event, BlockEvent | DraftEvent):
            self._deliver_part(stream, event)
            stream.delivered += 1
            return
        self._streams.discard(stream)
        try:
            self._end(stream, event)
        finally:
            if stream.has_slot:
                self._on_end()
            self._show_rows()

    def _show_rows(self) -> None:
        self._metrics.rows_in_flight(sum(not stream.is_score for stream in self._streams))

    def _deliver_part(self, stream: Stream, part: BlockEvent | DraftEvent) -> None:
        if stream.sender is None or stream.cancelled:
            return
        try:
            stream.sender.send(part, final=False)
        except Exception:  # noqa: BLE001 (Triton raises its own and others)
            _log.exception(
                "request %s is cancelled: a %s could not be sent", stream.request_id, part.type, extra=stream.log_fields
            )
            stream.cancelled = True
            return
        if isinstance(part, BlockEvent) and not stream.has_block:
            stream.has_block = True
            self._metrics.first_block(time.monotonic() - stream.arrived)

    def _end(self, stream: Stream, event: FinishEvent | ScoreEvent | ErrorEvent) -> None:
        sender, stream.sender = stream.sender, None
        if sender is not None:
            if not stream.cancelled:
                self._send_last(stream, sender, event)
            else:
                sender.end()
        seconds = time.monotonic() - stream.arrived
        _log_end(stream, event, seconds=seconds)
        if stream.is_score or isinstance(event, ScoreEvent):
            self._metrics.score_ended(event)
            return
        self._metrics.request_ended(event, seconds=seconds, waited_for_slot=max(0.0, stream.submitted - stream.arrived))

    def _send_last(self, stream: Stream, sender: Sender, event: FinishEvent | ScoreEvent | ErrorEvent) -> None:
        try:
            sender.send(event, final=True)
        except Exception:  # noqa: BLE001 (as above)
            # Triton waits for the final flag of every request, at its own end too.
            _log.exception("the last event of request %s could not be sent", stream.request_id, extra=stream.log_fields)
            sender.end()


def _log_end(stream: Stream, event: FinishEvent | ScoreEvent | ErrorEvent, *, seconds: float) -> None:
    """One line per request, with nothing of what it says."""
    facts: dict[str, object] = {**stream.log_fields, "seconds": round(seconds, 4)}
    outcome: str
    match event:
        case FinishEvent():
            outcome = event.reason
            facts |= event.model_dump(include={"prompt_tokens", "completion_tokens", "steps", "blocks"})
        case ScoreEvent():
            outcome = "scored"
            facts |= event.model_dump(include={"prompt_tokens", "tokens"})
        case ErrorEvent():
            outcome = event.code
    _log.info("request %s has ended: %s", stream.request_id, outcome, extra=facts | {"outcome": outcome})


def _cancel_if_gone(stream: Stream) -> None:
    if stream.sender is None or stream.handle is None:
        return
    if not stream.cancelled and stream.sender.is_cancelled():
        _log.info("request %s is cancelled: its client went away", stream.request_id, extra=stream.log_fields)
        stream.cancelled = True
    if stream.cancelled:
        stream.handle.cancel()  # until its last event comes; has no effect the second time
