"""The rows that run: one step of all of them at a time, and what becomes of each."""

import logging
import time
from collections.abc import Sequence

from diffusion_worker.engine.background import joined
from diffusion_worker.engine.memory_faults import give_memory_back, is_out_of_memory
from diffusion_worker.engine.memory_plan import RowMemory
from diffusion_worker.engine.observer import Observer, outcome_of
from diffusion_worker.engine.row import Row, tell
from diffusion_worker.engine.runner import Commit, Draft, Runner
from diffusion_worker.quality import degeneration
from diffusion_worker.wire import BlockEvent, DraftEvent, ErrorEvent, FinishEvent

_NON_FINITE = ErrorEvent(
    code="non_finite",
    message="the model's predictions are not numbers (NaN or Inf) for this request",
)
_log = logging.getLogger(__name__)


class Batch:
    """Rows that hold a slot. What goes wrong in one of them ends that row alone.

    Belongs to the engine's thread; others may read `rows` (its length) and `failed_passes`.
    """

    def __init__(self, runner: Runner, *, memory: RowMemory, observer: Observer, repetition_window: int) -> None:
        self.rows: list[Row] = []
        self.failed_passes = 0  # that raised since the last one that did not
        self._runner = runner
        self._memory = memory
        self._observer = observer
        self._repetition_window = repetition_window

    @property
    def free_slots(self) -> int:
        """Rows that there is still room for."""
        return self._runner.max_batch_size - len(self.rows)

    def has_memory_for(self, row: Row) -> bool:
        """Whether the row may start beside those that run."""
        return self._memory.fits(self.rows, row, now=time.monotonic())

    def take(self, row: Row) -> None:
        """Give a row a slot; there must be a free one."""
        self.rows.append(row)
        self._runner.admit(row)

    def step(self) -> None:
        """Move every row on by one step."""
        self._step(tuple(self.rows))

    def end(self, row: Row, event: FinishEvent | ErrorEvent) -> None:
        """Free the row's slot, then tell its submitter: whoever waits for the event finds the slot free."""
        self._runner.release(row)
        self.rows.remove(row)
        end_row(row, event, observer=self._observer)

    def _step(self, rows: Sequence[Row]) -> None:
        try:
            result = self._runner.step(rows)
        except Exception as error:  # noqa: BLE001 - whatever a pass raises fails its rows, not the loop
            self.failed_passes += 1
            if is_out_of_memory(error):
                self._end_for_memory(rows, error)
            elif len(rows) > 1:
                # One of them may be to blame: alone, each shows whether it is.
                _log.exception("a pass over %d rows failed; each is tried alone", len(rows))
                for row in rows:
                    self._step([row])
            else:
                _log.exception("a pass failed for request %s", rows[0].request_id, extra=rows[0].log_fields)
                self._fail(rows[0], f"the model failed on this request ({type(error).__name__})")
            return
        self.failed_passes = 0
        for done in result.passes:
            self._observer.pass_done(done)
        for row in result.non_finite:
            self.end(row, _NON_FINITE)
        for draft in result.drafts:
            self._show(draft)
        for commit in result.commits:
            self._commit(commit)

    def _end_for_memory(self, rows: Sequence[Row], error: Exception) -> None:
        """An allocation failed: the row that began last goes, and what the others need is there again."""
        row = rows[-1]
        _log.error("there was no memory for a step of %d rows: %s", len(rows), error, extra=row.log_fields)
        self._memory.failed(time.monotonic())
        error.__traceback__ = None  # its frames hold the tensors of the pass
        message = f"the worker had no memory left for {len(rows)} requests at once; send the request again"
        self.end(row, ErrorEvent(code="out_of_memory", message=message))
        give_memory_back()

    def _show(self, draft: Draft) -> None:
        row = draft.row
        try:
            text = row.output.preview(draft.token_ids)
        except Exception:  # noqa: BLE001 - a draft is not worth its row
            _log.exception("a draft of request %s could not be made", row.request_id, extra=row.log_fields)
            return
        if not tell(row.emit, DraftEvent(index=row.blocks, step=draft.step, text=text), log_fields=row.log_fields):
            row.cancelled = True

    def _commit(self, commit: Commit) -> None:
        row = commit.row
        try:
            text = row.output.push(commit.token_ids)
        except Exception as error:  # noqa: BLE001 - one row's text must not end the others
            _log.exception("the text of request %s could not be made", row.request_id, extra=row.log_fields)
            self._fail(row, f"the tokens could not be turned into text ({type(error).__name__})")
            return
        block = BlockEvent(
            index=row.blocks,
            text=text.text,
            tokens=text.tokens,
            steps=commit.steps,
            converged=commit.converged,
            logprobs=None if commit.logprobs is None else commit.logprobs[: text.tokens],
        )
        row.blocks += 1
        row.steps += commit.steps
        self._observer.block_committed(block)
        if row.background:
            row.held.append(block)
        else:
            self._send(row, block)
        if text.finish is not None:
            if row.held:
                self._send(row, joined(row.held))
            self.end(
                row,
                FinishEvent(
                    reason=text.finish,
                    prompt_tokens=len(row.prompt_token_ids),
                    completion_tokens=row.output.tokens,
                    steps=row.steps,
                    blocks=row.blocks,
                    seed=row.seed,
                    queue_seconds=row.queue_seconds,
                    degeneration=degeneration(row.output.token_ids, window=self._repetition_window),
                ),
            )

    def _send(self, row: Row, block: BlockEvent) -> None:
        if not tell(row.emit, block, log_fields=row.log_fields):
            row.cancelled = True  # nobody listens any more

    def _fail(self, row: Row, message: str) -> None:
        self.end(row, ErrorEvent(code="engine_error", message=message))


def end_row(row: Row, event: FinishEvent | ErrorEvent, *, observer: Observer) -> None:
    """The last event of a row that holds no slot."""
    observer.row_ended(outcome_of(event))
    tell(row.emit, event, log_fields=row.log_fields)
