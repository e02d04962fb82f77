"""What the adapter tells about itself."""

from prometheus_client import CollectorRegistry, Counter, Histogram

from .failures import Reason


class Telemetry:
    """The adapter's metrics, in the operator's registry."""

    def __init__(self, registry: CollectorRegistry) -> None:
        self.seconds = Histogram(
            "diffusion_operator_prometheus_query_seconds",
            "Time of one query to Prometheus, the wait for a free connection not included.",
            buckets=(0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30),
            registry=registry,
        )
        self.failures = Counter(
            "diffusion_operator_prometheus_failures",
            "Readings, and questions about the whole fleet, that gave nothing usable, by why.",
            ["reason"],
            registry=registry,
        )
        for reason in Reason:
            self.failures.labels(reason=reason.value)
