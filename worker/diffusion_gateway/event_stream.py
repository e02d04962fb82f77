"""The events of one row, whoever sends them: read ahead by a task of their own, taken one by one by whoever answers the client."""

import asyncio
import time
from abc import ABC, abstractmethod
from collections.abc import Callable

import structlog
from diffusion_worker.wire import BlockEvent, DraftEvent, ErrorEvent, FinishEvent, ScoreEvent

from .reasons import Reason, WorkerError

Event = BlockEvent | DraftEvent | FinishEvent | ScoreEvent | ErrorEvent

_log = structlog.get_logger()

# An answer has at most a few hundred blocks; this many wait for a slow client before the server has to.
_BUFFERED_EVENTS = 64


class EventStream(ABC):
    """Ends with a `FinishEvent` (of a score: `ScoreEvent`) or `ErrorEvent`."""

    def __init__(self, *, clock: Callable[[], float] = time.monotonic) -> None:
        """Starts to read; subclasses set what `_read` needs before."""
        self.ended_at: float | None = None
        """When the last event arrived, on `clock`; it may be read later."""
        self.spoke_at = float("-inf")
        """When the last event of any kind arrived, on `clock`."""
        self.held_up = False
        """The server had to wait, because events were not read as fast as they came."""
        self.has_answered = False
        """The row came to its end by itself."""
        self._clock = clock
        self._queue: asyncio.Queue[Event | WorkerError] = asyncio.Queue(_BUFFERED_EVENTS)
        self._ended = False
        self.task = asyncio.create_task(self._read())
        self.task.add_done_callback(self._report_crash)

    @property
    def has_ended(self) -> bool:
        """The row is done, or has failed; what is left of the stream is its tail."""
        return self._ended or self.task.done()

    async def next(self, *, timeout_seconds: float) -> Event:
        """The next event.

        Raises:
            WorkerError: the server failed, or nothing came in time.
        """
        if self._queue.empty():
            try:
                async with asyncio.timeout(timeout_seconds):
                    item = await self._queue.get()
            except TimeoutError:
                raise WorkerError(Reason.TIMEOUT, f"nothing came for {timeout_seconds:g} s") from None
        else:
            item = self._queue.get_nowait()
        if isinstance(item, WorkerError):
            raise item
        return item

    def close(self) -> None:
        """Cancel the row, unless its last event is here: then the rest of the stream is read in the background."""
        if self._ended:
            # Room for the one event that may still wait to be put.
            self._empty()
        else:
            self.task.cancel()

    def abort(self, error: WorkerError) -> None:
        """Cancel the row and let the reader see `error` next."""
        self.task.cancel()
        self._empty()
        self._queue.put_nowait(error)

    @abstractmethod
    async def _read(self) -> None:
        """Read all events and `_put` them, an end among them. Cancelled when nobody wants more."""

    async def _put(self, event: Event | WorkerError) -> None:
        if not isinstance(event, WorkerError):
            self.spoke_at = self._clock()
        if isinstance(event, DraftEvent):
            # Old news as soon as the next is there: who reads slowly gets fewer of them.
            if self._queue.empty():
                self._queue.put_nowait(event)
            return
        self._ended = not isinstance(event, BlockEvent)
        if self._ended:
            self.ended_at = self._clock()
            self.has_answered = isinstance(event, FinishEvent | ScoreEvent)
        elif self._queue.full():
            self.held_up = True
        await self._queue.put(event)

    def _report_crash(self, task: "asyncio.Task[None]") -> None:
        """A mistake of ours must not let the reader wait for its timeout."""
        if not task.cancelled() and (error := task.exception()) is not None:
            _log.error("reading from a server failed", exc_info=error)
            self._empty()
            self._queue.put_nowait(WorkerError(Reason.ENGINE_ERROR, f"reading failed: {error!r}"))

    def _empty(self) -> None:
        while not self._queue.empty():
            self._queue.get_nowait()
