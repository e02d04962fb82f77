"""From a pair, or a sample that became none, to the sums that the operator reads."""

from ..metrics.labels import pair_labels
from ..metrics.pairs import PairMetrics
from .compare import Pair, Side
from .sample import Sample


def count_pair(metrics: PairMetrics, sample: Sample, pair: Pair) -> None:
    """Add a pair to the sums."""
    labels = _labels(sample)
    difference = pair.difference
    metrics.pairs.labels(*labels).inc()
    metrics.above.labels(*labels).inc(max(difference, 0.0))
    metrics.below.labels(*labels).inc(max(-difference, 0.0))
    metrics.squared.labels(*labels).inc(difference**2)
    _count_side(metrics, (*labels, "diffusion"), pair.diffusion)
    _count_side(metrics, (*labels, "ar"), pair.ar)


def count_dropped(metrics: PairMetrics, sample: Sample, reason: str) -> None:
    """A sample that became no pair."""
    metrics.dropped.labels(*_labels(sample), reason).inc()


def _count_side(metrics: PairMetrics, labels: tuple[str, ...], side: Side) -> None:
    metrics.nll.labels(*labels).inc(side.score.nll)
    metrics.tokens.labels(*labels).inc(side.score.tokens)
    metrics.text_bytes.labels(*labels).inc(side.score.text_bytes)
    metrics.output_tokens.labels(*labels).inc(side.tokens)
    if side.degeneration is not None:
        metrics.checked.labels(*labels).inc()
        metrics.repeating.labels(*labels).inc(side.degeneration.repeats)
        metrics.distinct_2.labels(*labels).inc(side.degeneration.distinct_2)


def _labels(sample: Sample) -> tuple[str, ...]:
    drawn = sample.drawn
    return pair_labels(drawn.model, revision=drawn.arm.revision, ar_revision=drawn.ar.revision)
