"""The worker's own metrics, on Triton's metrics port.

Triton's built-in latencies do not fit a decoupled model that answers from a thread: they end when execute() returns.
Every update goes to Triton's process and back (some 30 µs), so all methods run in the delivery thread.
"""

from collections.abc import Mapping, Sequence
from typing import Any

from diffusion_worker.config import EngineConfig
from diffusion_worker.engine import Pass, PassKind, RowOutcome
from diffusion_worker.engine.observer import OUTCOME_OF_ERROR, outcome_of
from diffusion_worker.wire import BlockEvent, ErrorEvent, FinishEvent, ScoreEvent

_SECONDS = (0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0)
_STEPS = (1.0, 2.0, 4.0, 6.0, 8.0, 10.0, 12.0, 16.0, 20.0, 25.0, 32.0, 40.0, 48.0, 64.0)
_ROWS = (1.0, 2.0, 4.0, 8.0, 12.0, 16.0, 24.0, 32.0, 48.0, 64.0)
_SCORED = "scored"


class WorkerMetrics:
    """All metrics of one model. `family` is Triton's `MetricFamily` class."""

    def __init__(self, family: Any, config: EngineConfig) -> None:
        self._family = family
        self._families: list[Any] = []  # a family that is collected makes its metrics raise
        self._labels = {"model": config.model, "revision": config.revision, "kind": str(config.kind)}
        outcomes = [{"outcome": str(outcome)} for outcome in RowOutcome]
        counters = self._metrics("dlm_requests_total", family.COUNTER, "Requests by outcome.", labels=outcomes)
        self._requests = dict(zip(RowOutcome, counters, strict=True))
        kinds = [_SCORED, *(str(outcome) for outcome in RowOutcome if outcome in OUTCOME_OF_ERROR.values())]
        scores = self._metrics(
            "dlm_scores_total",
            family.COUNTER,
            "Texts that were to be scored, by outcome; not counted as requests.",
            labels=[{"outcome": kind} for kind in kinds],
        )
        self._scores = dict(zip(kinds, scores, strict=True))
        self._blocks = self._metric("dlm_blocks_total", family.COUNTER, "Blocks committed.")
        self._tokens = self._metric("dlm_tokens_total", family.COUNTER, "Tokens committed.")
        self._capped = self._metric(
            "dlm_capped_blocks_total", family.COUNTER, "Blocks that hit the step cap before they were stable."
        )
        self._steps = self._metric(
            "dlm_denoising_steps", family.HISTOGRAM, "Denoising steps of a block.", buckets=_STEPS
        )
        self._batch = self._metric(
            "dlm_batch_size", family.HISTOGRAM, "Rows of a denoising or decoding pass that ran.", buckets=_ROWS
        )
        self._rows = self._metric("dlm_rows_in_flight", family.GAUGE, "Requests that hold a slot.")
        self._queue = self._metric(
            "dlm_queue_seconds",
            family.HISTOGRAM,
            "From arrival in the backend to the first pass. Triton's own queue comes before.",
            buckets=_SECONDS,
        )
        self._first_block = self._metric(
            "dlm_time_to_first_block_seconds",
            family.HISTOGRAM,
            "From arrival in the backend to the first block.",
            buckets=_SECONDS,
        )
        self._request = self._metric(
            "dlm_request_seconds",
            family.HISTOGRAM,
            "From arrival in the backend to the last event of a request that was answered.",
            buckets=_SECONDS,
        )

    def pass_done(self, done: Pass) -> None:
        """Count a forward pass; those over prompts and scores say nothing about how full the batch is."""
        if done.kind in (PassKind.DENOISE, PassKind.DECODE):
            self._batch.observe(done.rows)

    def block_committed(self, block: BlockEvent) -> None:
        """Count a block."""
        self._blocks.increment(1)
        self._tokens.increment(block.tokens)
        self._steps.observe(block.steps)
        if not block.converged:
            self._capped.increment(1)

    def first_block(self, seconds: float) -> None:
        """A request's first block went out."""
        self._first_block.observe(seconds)

    def rows_in_flight(self, rows: int) -> None:
        """Requests that hold a slot now."""
        self._rows.set(rows)

    def request_ended(self, event: FinishEvent | ErrorEvent, *, seconds: float, waited_for_slot: float) -> None:
        """A request's last event went out, `seconds` after its arrival in the backend."""
        self._requests[outcome_of(event)].increment(1)
        if isinstance(event, FinishEvent):
            self._request.observe(seconds)
            self._queue.observe(waited_for_slot + event.queue_seconds)

    def score_ended(self, event: FinishEvent | ScoreEvent | ErrorEvent) -> None:
        """A score, or why there is none, went out."""
        self._scores[str(outcome_of(event)) if isinstance(event, ErrorEvent) else _SCORED].increment(1)

    def _metric(self, name: str, kind: Any, description: str, *, buckets: Sequence[float] | None = None) -> Any:
        return self._metrics(name, kind, description, labels=[{}], buckets=buckets)[0]

    def _metrics(
        self,
        name: str,
        kind: Any,
        description: str,
        *,
        labels: Sequence[Mapping[str, str]],
        buckets: Sequence[float] | None = None,
    ) -> list[Any]:
        family = self._family(name=name, description=description, kind=kind)
        self._families.append(family)
        options = {} if buckets is None else {"buckets": list(buckets)}
        return [family.Metric(labels={**self._labels, **more}, **options) for more in labels]
