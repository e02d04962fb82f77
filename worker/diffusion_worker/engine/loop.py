"""The loop: one thread that keeps a batch of rows moving, whatever happens to any one of them."""

import logging
import threading
import time
from collections import deque
from dataclasses import dataclass
from typing import Literal

from diffusion_worker.engine.admission import RefusedError, admit_request, admit_score
from diffusion_worker.engine.background import has_room, in_the_way
from diffusion_worker.engine.batch import Batch, end_row
from diffusion_worker.engine.memory_check import MeasuredBytes
from diffusion_worker.engine.memory_plan import RowMemory
from diffusion_worker.engine.observer import NullObserver, Observer, outcome_of
from diffusion_worker.engine.row import Emit, EmitScore, Row, tell
from diffusion_worker.engine.runner import Runner
from diffusion_worker.engine.scorer import ScoreRow
from diffusion_worker.engine.scores import Scores
from diffusion_worker.log_lines import request_fields
from diffusion_worker.quality import DEFAULT_WINDOW
from diffusion_worker.wire import ErrorEvent, GenerateRequest, ScoreRequest

_log = logging.getLogger(__name__)
_SHUTTING_DOWN = "this worker is shutting down; send the request again"
_CANCELLED = ErrorEvent(code="cancelled", message="the request was cancelled")
_PREEMPTED = ErrorEvent(code="preempted", message="a request that a client waits for needed the row; try again later")
_NO_ROOM = "all rows are taken, and a background request waits for none; try again later"


@dataclass(frozen=True)
class EngineStats:
    """A look at the engine from outside."""

    rows_in_flight: int
    rows_waiting: int
    consecutive_failed_passes: int  # passes that raised since the last one that did not
    seconds_since_tick: float  # how long the loop has been in its present pass or wait


class Handle:
    """Lets the submitter of a request cancel it."""

    def __init__(self, engine: "Engine", row: Row | ScoreRow | None) -> None:
        self._engine = engine
        self._row = row

    def cancel(self) -> None:
        """Ask for the row to be dropped; thread-safe, and without effect once the row has ended.

        Unless it ends by itself before the loop looks, the row's last event is an ErrorEvent with code `cancelled`,
        so that a caller can release what it holds at that event alone.
        """
        if self._row is not None:
            self._engine._cancel(self._row)


class Engine:
    """Serves one model from its own thread. All public methods are thread-safe.

    Each submitted request gets its events through `emit`: blocks, then exactly one FinishEvent or ErrorEvent, after
    which `emit` is not called again. `emit` must not block. It is called from the engine's thread, except for requests
    that are refused at once: those get their ErrorEvent from the submitting thread before `submit` returns.
    """

    def __init__(
        self,
        runner: Runner,
        *,
        batch_window_seconds: float,
        repetition_window: int = DEFAULT_WINDOW,
        score_share: float = 0.05,
        memory: RowMemory | None = None,
        measured: MeasuredBytes | None = None,
        observer: Observer | None = None,
    ) -> None:
        """Without a `memory` only the number of rows counts. `measured` is kept for whoever asks."""
        self.measured = measured
        self._memory = memory or RowMemory(max_rows=runner.max_batch_size)
        self._has_room = threading.Event()
        self._has_room.set()
        self._runner = runner
        self._batch_window_seconds = batch_window_seconds
        self._observer = observer or NullObserver()
        self._changed = threading.Condition()
        self._waiting: deque[Row] = deque()
        self._batch = Batch(runner, memory=self._memory, observer=self._observer, repetition_window=repetition_window)
        self._scores = (
            None if runner.scorer is None else Scores(runner.scorer, share=score_share, observer=self._observer)
        )
        self._closing: Literal["no", "drain", "now"] = "no"
        self._idle = True
        self._ticked = time.monotonic()
        self._thread = threading.Thread(target=self._run, name="engine", daemon=True)
        self._thread.start()

    @property
    def max_batch_size(self) -> int:
        """Rows that run at once; more than these wait in the engine."""
        return self._runner.max_batch_size

    @property
    def max_sequence_length(self) -> int:
        """Prompt and output tokens that one row may have."""
        return self._runner.limits.max_sequence_length

    def wait_for_room(self, timeout: float) -> bool:
        """Block, up to `timeout` seconds, while a row waits for memory; False when one still does."""
        return self._has_room.wait(timeout)

    @property
    def alive(self) -> bool:
        """Whether the engine's thread runs. `stats.seconds_since_tick` tells whether it is stuck in a pass."""
        return self._thread.is_alive()

    @property
    def rows_in_flight(self) -> int:
        """Rows that are running or waiting to run."""
        with self._changed:
            return len(self._rows)

    @property
    def stats(self) -> EngineStats:
        """A consistent snapshot of the loop's state."""
        with self._changed:
            return EngineStats(
                rows_in_flight=len(self._rows),
                rows_waiting=len(self._waiting),
                consecutive_failed_passes=self._batch.failed_passes,
                seconds_since_tick=time.monotonic() - self._ticked,
            )

    @property
    def _rows(self) -> list[Row]:
        """Rows that are running or waiting to run; for who holds the lock."""
        return [*self._batch.rows, *self._waiting]

    @property
    def _slots(self) -> int:
        """Rows that there is room for; for who holds the lock. While one waits for memory there is none for more."""
        return self.max_batch_size if self._has_room.is_set() else len(self._batch.rows)

    def submit(self, request: GenerateRequest, emit: Emit, *, traceparent: str | None = None) -> Handle:
        """Queue a request. Never raises for a bad one: its only event is then an ErrorEvent.

        `traceparent` is for log lines.

        A background request does not wait: it is refused as `overloaded` unless it finds a free row, and ends as
        `preempted` within a pass once another request needs that.
        """
        try:
            row = admit_request(request, runner=self._runner, emit=emit)
        except RefusedError as refused:
            return self._refuse(request, emit, refused.event, traceparent)
        row.traceparent = traceparent
        too_large = self._memory.never_fits(row)
        with self._changed:
            if self._closing != "no":
                refusal = ErrorEvent(code="shutting_down", message=_SHUTTING_DOWN)
            elif too_large is not None:
                refusal = ErrorEvent(code="invalid_request", message=too_large, param="max_tokens")
            elif row.background and not has_room(self._rows, slots=self._slots):
                refusal = ErrorEvent(code="overloaded", message=_NO_ROOM)
            else:
                self._waiting.append(row)
                self._changed.notify()
                return Handle(self, row)
        return self._refuse(request, emit, refusal, traceparent)

    def _refuse(self, request: GenerateRequest, emit: Emit, event: ErrorEvent, traceparent: str | None) -> Handle:
        self._observer.row_ended(outcome_of(event))
        tell(emit, event, log_fields=request_fields(request.request_id, traceparent))
        return Handle(self, None)

    def submit_score(self, request: ScoreRequest, emit: EmitScore, *, traceparent: str | None = None) -> Handle:
        """Queue a text to score: its only event is a ScoreEvent or an ErrorEvent. It runs when it holds nothing up."""
        try:
            row = admit_score(request, runner=self._runner, emit=emit)
        except RefusedError as refused:
            emit(refused.event)
            return Handle(self, None)
        row.traceparent = traceparent
        with self._changed:
            if self._closing != "no":
                refusal = ErrorEvent(code="shutting_down", message=_SHUTTING_DOWN)
            elif self._scores is None or self._scores.is_full:
                refusal = ErrorEvent(code="overloaded", message="too many scores wait here; try again later")
            else:
                self._scores.waiting.append(row)
                self._changed.notify()
                return Handle(self, row)
        emit(refusal)
        return Handle(self, None)

    def close(self, *, drain: bool = True, timeout_seconds: float | None = None) -> None:
        """Stop taking requests and end the thread. Blocks until it has ended; may be called more than once.

        With `drain`, rows run to their end for up to `timeout_seconds` (None: as long as they take); what is left
        then, or everything without `drain`, ends with an ErrorEvent `shutting_down`.
        """
        self._close(how="drain" if drain else "now")
        if drain and timeout_seconds is not None:
            self._thread.join(timeout_seconds)
            self._close(how="now")
        self._thread.join()

    def _close(self, how: Literal["drain", "now"]) -> None:
        with self._changed:
            if self._closing != "now":
                self._closing = how
            self._changed.notify()

    def _cancel(self, row: Row | ScoreRow) -> None:
        with self._changed:
            row.cancelled = True
            self._changed.notify()

    # Below here everything runs in the engine's thread.

    def _run(self) -> None:
        try:
            while self._wait_for_work():
                self._make_room()
                self._fill_batch()
                if self._batch.rows:
                    started = time.monotonic()
                    self._batch.step()
                    if self._scores is not None:
                        self._scores.step_beside_requests(time.monotonic() - started)
                elif self._scores is not None and self._scores.has_work:
                    self._scores.step()
        except Exception:  # noqa: BLE001 - it is reported to everyone who waits, and by `alive`
            _log.exception("the engine's loop has ended by a fault of its own")
            self._abandon("engine_error", "the engine has stopped; send the request again")
        else:
            self._abandon("shutting_down", _SHUTTING_DOWN)

    def _abandon(self, code: Literal["engine_error", "shutting_down"], message: str) -> None:
        """Tell all submitters that there will be no more. The cache goes with the engine: no slot needs freeing."""
        with self._changed:
            self._closing = "now"
            left = self._rows
            self._batch.rows.clear()
            self._waiting.clear()
            if self._scores is not None:
                self._scores.abandon(code, message)
        for row in left:
            end_row(row, ErrorEvent(code=code, message=message), observer=self._observer)

    def _wait_for_work(self) -> bool:
        """Block while there is nothing to do; False: the loop shall end."""
        with self._changed:
            self._ticked = time.monotonic()
            while not self._batch.rows and not self._waiting:
                if self._closing != "no":
                    return False
                self._idle = True
                if self._scores is not None and self._scores.has_work:
                    return True
                self._changed.wait(timeout=1.0)
                self._ticked = time.monotonic()
            if self._idle:
                self._wait_for_company()
                self._idle = False
            return self._closing != "now"

    def _wait_for_company(self) -> None:
        """Let an idle engine's first request wait for others, so that they start in one batch."""
        deadline = self._waiting[0].arrived + self._batch_window_seconds
        while self._closing == "no" and len(self._waiting) < self._runner.max_batch_size:
            left = deadline - time.monotonic()
            if left <= 0:
                return
            self._changed.wait(timeout=left)

    def _make_room(self) -> None:
        """End the rows that nobody waits for any more, and background rows in the way of others."""
        with self._changed:
            ends = [(row, _CANCELLED) for row in self._rows if row.cancelled]
            left = [row for row in self._rows if not row.cancelled]
            ends += [(row, _PREEMPTED) for row in in_the_way(left, slots=self._slots)]
            waiting = [row for row, _ in ends if row in self._waiting]
            for row in waiting:
                self._waiting.remove(row)
            if self._scores is not None:
                self._scores.drop_cancelled()
        for row, event in ends:
            if row in waiting:
                end_row(row, event, observer=self._observer)
            else:
                self._batch.end(row, event)

    def _fill_batch(self) -> None:
        now = time.monotonic()
        with self._changed:
            if self._waiting and self._scores is not None:
                self._scores.make_room()
            while self._waiting and self._batch.free_slots and self._batch.has_memory_for(self._waiting[0]):
                row = self._waiting.popleft()
                row.started = now
                self._batch.take(row)
            if self._waiting and self._batch.free_slots:
                self._has_room.clear()  # nobody overtakes a row that waits for memory, or a long one would wait for ever
            else:
                self._has_room.set()
