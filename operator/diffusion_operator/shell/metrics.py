"""What the operator tells about itself."""

from collections import Counter
from collections.abc import Iterable

from prometheus_client import CollectorRegistry, Gauge, Histogram, generate_latest
from prometheus_client import Counter as CounterMetric

from diffusion_operator.api.models import Phase

from .rollout_metrics import RolloutMetrics


class Metrics:
    """All metrics of one operator."""

    def __init__(self) -> None:
        self.registry = CollectorRegistry()
        self.reconciles = CounterMetric(
            "diffusion_operator_reconciles",
            "Passes over a resource, by how they ended: ok, gone, rejected, conflict, transient, error.",
            ["outcome"],
            registry=self.registry,
        )
        self.reconcile_seconds = Histogram(
            "diffusion_operator_reconcile_seconds",
            "Time of one pass over a resource.",
            buckets=(0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30),
            registry=self.registry,
        )
        self.writes = CounterMetric(
            "diffusion_operator_writes",
            "Writes to the API server. An idle operator makes none.",
            ["verb", "kind"],
            registry=self.registry,
        )
        self.models = Gauge("diffusion_operator_models", "Resources by phase.", ["phase"], registry=self.registry)
        self.overdue = Gauge(
            "diffusion_operator_overdue_loops",
            "Resources whose loop has not ticked for too long. Liveness fails while there are any.",
            registry=self.registry,
        )
        self.rollouts = RolloutMetrics()

    def count_models(self, phases: Iterable[Phase | None]) -> None:
        """Set the number of resources in each phase."""
        counted = Counter(phases)
        for phase in Phase:
            self.models.labels(phase=phase.value).set(counted[phase])

    def page(self) -> bytes:
        """What Prometheus reads."""
        return generate_latest(self.registry) + self.rollouts.page()
