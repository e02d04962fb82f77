"""Scores beside answers: they give way to requests, and yet come forward in an engine that never rests.

The rule: in an idle engine they run several at a time. While requests run, one text at a time gets a small pass (128
tokens) between two steps, as long as scores have had less than their share of the time; a step is never held up by more
than one such pass. When a request comes while several texts run, these start again, so that at most one takes memory
beside the rows of requests.
"""

import logging
import math
import time
from collections import deque
from typing import Literal

from diffusion_worker.engine.memory_faults import give_memory_back, is_out_of_memory
from diffusion_worker.engine.observer import Observer
from diffusion_worker.engine.row import tell
from diffusion_worker.engine.scorer import Scorer, ScoreRow
from diffusion_worker.engine.share import TimeShare
from diffusion_worker.sizing.costs import SCORED_TOKENS, SCORED_TOKENS_BESIDE
from diffusion_worker.wire import ErrorEvent, ScoreEvent

MAX_WAITING = 256
_log = logging.getLogger(__name__)


class Scores:
    """The scores of one engine, waiting and running. Not thread-safe: the engine has a lock for `waiting`."""

    def __init__(self, scorer: Scorer, *, share: float, observer: Observer) -> None:
        """`share` of a busy engine's time is theirs; 0: they run in an idle one only."""
        self.waiting: deque[ScoreRow] = deque()
        self._share = TimeShare(share)
        self._rows_beside_requests = 1 if share > 0 else 0
        self._scorer = scorer
        self._observer = observer
        self._running: list[ScoreRow] = []
        self._alone: deque[ScoreRow] = deque()  # of a batch that failed: one of them may be to blame

    @property
    def has_work(self) -> bool:
        """Whether any score is not done."""
        return bool(self.waiting or self._running or self._alone)

    @property
    def is_full(self) -> bool:
        """Whether no more may wait."""
        return len(self.waiting) >= MAX_WAITING

    def step(self) -> None:
        """One pass in an idle engine."""
        if not self._running:
            self._begin(self._scorer.max_rows)
        self._pass(tokens=SCORED_TOKENS)

    def step_beside_requests(self, busy_seconds: float) -> None:
        """One small pass if it is time for one, after requests have run for so long."""
        self._share.earn(busy_seconds)
        if not (self.has_work and self._share.is_due):
            return
        if not self._running:
            self._begin(1)
        started = time.monotonic()
        self._pass(tokens=SCORED_TOKENS_BESIDE)
        self._share.spend(time.monotonic() - started)

    def make_room(self) -> None:
        """A request has come: more than may run beside it has to wait again."""
        if self._scorer.rows_held > self._rows_beside_requests:
            self._pause()

    def drop_cancelled(self) -> None:
        """End those that nobody waits for any more."""
        cancelled = [row for row in (*self.waiting, *self._running, *self._alone) if row.cancelled]
        if any(row in self._running for row in cancelled):
            self._pause()
        for row in cancelled:
            (self._alone if row in self._alone else self.waiting).remove(row)
            _send(row, ErrorEvent(code="cancelled", message="the request was cancelled"))

    def abandon(self, code: Literal["engine_error", "shutting_down"], message: str) -> None:
        """End all of them. The cache goes with the engine: no slot needs freeing."""
        left = [*self._running, *self._alone, *self.waiting]
        for rows in (self._running, self._alone, self.waiting):
            rows.clear()
        for row in left:
            _send(row, ErrorEvent(code=code, message=message))

    def _begin(self, most: int) -> None:
        if self._alone:
            self._running = [self._alone.popleft()]
        else:
            self._running = [self.waiting.popleft() for _ in range(min(most, len(self.waiting)))]
        self._scorer.begin(self._running)

    def _pass(self, *, tokens: int) -> None:
        try:
            done, record = self._scorer.step(tokens=tokens)
        except Exception as error:  # noqa: BLE001 - whatever a pass raises fails its rows, not the loop
            self._fail(error)
            return
        self._observer.pass_done(record)
        for row in done:
            self._running.remove(row)
            self._finish(row)
        if not self._running:
            self._scorer.end()

    def _pause(self) -> None:
        """What runs has to wait again, in front of the others."""
        self._scorer.end()
        self.waiting.extendleft(reversed(self._running))
        self._running = []

    def _fail(self, error: Exception) -> None:
        failed, self._running = self._running, []
        self._scorer.end()
        if len(failed) > 1:
            _log.exception("a pass over %d scores failed; each is tried alone", len(failed))
            self._alone.extend(failed)
        else:
            _log.exception("the score of request %s failed", failed[0].request_id, extra=failed[0].log_fields)
            _send(failed[0], _why(error))
        if is_out_of_memory(error):
            error.__traceback__ = None  # its frames hold the tensors of the pass
            give_memory_back()

    def _finish(self, row: ScoreRow) -> None:
        if not math.isfinite(row.nll):
            message = f"the model's predictions for this text give no finite likelihood (nll {row.nll})"
            _send(row, ErrorEvent(code="non_finite", message=message))
            return
        _send(
            row,
            ScoreEvent(
                nll=row.nll, tokens=row.tokens, text_bytes=row.text_bytes, prompt_tokens=len(row.prompt_token_ids)
            ),
        )


def _why(error: Exception) -> ErrorEvent:
    if is_out_of_memory(error):
        return ErrorEvent(code="out_of_memory", message="the worker had no memory left for this text")
    return ErrorEvent(code="engine_error", message=f"the model failed on this text ({type(error).__name__})")


def _send(row: ScoreRow, event: ScoreEvent | ErrorEvent) -> None:
    tell(row.emit, event, log_fields=row.log_fields)
