"""The worker's own metrics, on Triton's metrics port.

Triton's built-in latencies do not fit a decoupled model that answers from a thread: they end when execute() returns.
Every update goes to Triton's process and back (some 30 µs), so all methods run in the delivery thread.
"""

from collections.abc import Mapping, Sequence
from typing import Any

from diffusion_worker.config import EngineConfig, PlannedBytes
from diffusion_worker.engine import Pass, PassKind, RowOutcome
from diffusion_worker.engine.memory_check import MeasuredBytes
from diffusion_worker.engine.observer import OUTCOME_OF_ERROR, outcome_of
from diffusion_worker.wire import BlockEvent, ErrorEvent, FinishEvent, ScoreEvent

_SECONDS = (0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0)
_STEPS = (1.0, 2.0, 4.0, 6.0, 8.0, 10.0, 12.0, 16.0, 20.0, 25.0, 32.0, 40.0, 48.0, 64.0)
_ROWS = (1.0, 2.0, 4.0, 8.0, 12.0, 16.0, 24.0, 32.0, 48.0, 64.0)
_SCORED = "scored"
_PART_NAMES = (*PlannedBytes.model_fields, "total")
_PARTS = [{"part": name} for name in _PART_NAMES]


def _parts(sizes: PlannedBytes | MeasuredBytes | None) -> list[int]:
    """In the order of `_PARTS`; zeros when nothing is known."""
    if sizes is None:
        return [0] * len(_PARTS)
    parts = [int(getattr(sizes, name)) for name in PlannedBytes.model_fields]
    return [*parts, sum(parts)]


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
        planned = _parts(config.planned)
        gauges = self._metrics(
            "dlm_planned_bytes", family.GAUGE, "Memory that the plan gives to each part.", labels=_PARTS
        )
        for gauge, size in zip(gauges, planned, strict=True):
            gauge.set(size)
        self._measured = self._metrics(
            "dlm_measured_bytes",
            family.GAUGE,
            "Memory at the peak of the largest step, which runs once at start when there is a budget; else 0.",
            labels=_PARTS,
        )
        self._out_of_memory = self._metric(
            "dlm_out_of_memory_total", family.COUNTER, "Requests and scores that ended for want of memory."
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

    def memory_measured(self, measured: MeasuredBytes | None) -> None:
        """What the largest step took; None: it was not run."""
        for gauge, size in zip(self._measured, _parts(measured), strict=True):
            gauge.set(size)

    def rows_in_flight(self, rows: int) -> None:
        """Requests that hold a slot now."""
        self._rows.set(rows)

    def request_ended(self, event: FinishEvent | ErrorEvent, *, seconds: float, waited_for_slot: float) -> None:
        """A request's last event went out, `seconds` after its arrival in the backend."""
        self._requests[outcome_of(event)].increment(1)
        self._count_out_of_memory(event)
        if isinstance(event, FinishEvent):
            self._request.observe(seconds)
            self._queue.observe(waited_for_slot + event.queue_seconds)

    def score_ended(self, event: FinishEvent | ScoreEvent | ErrorEvent) -> None:
        """A score, or why there is none, went out."""
        self._count_out_of_memory(event)
        self._scores[str(outcome_of(event)) if isinstance(event, ErrorEvent) else _SCORED].increment(1)

    def _count_out_of_memory(self, event: FinishEvent | ScoreEvent | ErrorEvent) -> None:
        if isinstance(event, ErrorEvent) and event.code == "out_of_memory":
            self._out_of_memory.increment(1)

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
