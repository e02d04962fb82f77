"""Scores beside answers: they run in an engine that has nothing else to do.

The rule: a pass for scores starts only while no request for an answer runs or waits. A request that comes meanwhile waits
for the end of that one pass at most (512 tokens); scores that are not done then give their slots back and start again
when the engine is idle next. They take no memory of their own, and no request waits for a slot because of them.
"""

import logging
import math
from collections import deque
from typing import Literal

from diffusion_worker.engine.observer import Observer
from diffusion_worker.engine.row import tell
from diffusion_worker.engine.scorer import Scorer, ScoreRow
from diffusion_worker.wire import ErrorEvent, ScoreEvent

MAX_WAITING = 256
_log = logging.getLogger(__name__)


class Scores:
    """The scores of one engine, waiting and running. Not thread-safe: the engine has a lock for `waiting`."""

    def __init__(self, scorer: Scorer, observer: Observer) -> None:
        self.waiting: deque[ScoreRow] = deque()
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
        """One pass."""
        if not self._running:
            self._begin()
        try:
            done, record = self._scorer.step()
        except Exception as error:  # noqa: BLE001 - whatever a pass raises fails its rows, not the loop
            self._fail(error)
            return
        self._observer.pass_done(record)
        for row in done:
            self._running.remove(row)
            self._finish(row)
        if not self._running:
            self._scorer.end()

    def pause(self) -> None:
        """Make room for requests: what runs has to wait again, in front of the others."""
        if self._running:
            self._scorer.end()
            self.waiting.extendleft(reversed(self._running))
            self._running = []

    def drop_cancelled(self) -> None:
        """End those that nobody waits for any more."""
        cancelled = [row for row in (*self.waiting, *self._running, *self._alone) if row.cancelled]
        if any(row in self._running for row in cancelled):
            self.pause()
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

    def _begin(self) -> None:
        if self._alone:
            self._running = [self._alone.popleft()]
        else:
            self._running = [self.waiting.popleft() for _ in range(min(self._scorer.max_rows, len(self.waiting)))]
        self._scorer.begin(self._running)

    def _fail(self, error: Exception) -> None:
        failed, self._running = self._running, []
        self._scorer.end()
        if len(failed) > 1:
            _log.exception("a pass over %d scores failed; each is tried alone", len(failed))
            self._alone.extend(failed)
            return
        _log.exception("the score of request %s failed", failed[0].request_id)
        _send(
            failed[0],
            ErrorEvent(code="engine_error", message=f"the model failed on this text ({type(error).__name__})"),
        )

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


def _send(row: ScoreRow, event: ScoreEvent | ErrorEvent) -> None:
    tell(row.emit, event, request_id=row.request_id)
