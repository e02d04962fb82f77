"""What the gateway measures, with the same meaning on every arm.

Labels are bounded: models, roles, revisions and our own reasons. What is no longer in the table is forgotten in the end, or a
gateway that sees revisions come and go for months would never stop growing.
"""

import time
from collections.abc import Callable

from diffusion_operator.api.status import RouteArm
from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram
from prometheus_client.platform_collector import PlatformCollector
from prometheus_client.process_collector import ProcessCollector

from .reasons import Reason
from .routes import Model, Table

_MODEL = ("namespace", "model")
_ARM = (*_MODEL, "arm", "revision", "kind")
_FIRST_TOKEN_BUCKETS = (0.02, 0.05, 0.1, 0.2, 0.3, 0.4, 0.5, 0.75, 1, 1.5, 2.5, 5, 10, 30)
_TOTAL_BUCKETS = (0.05, 0.1, 0.25, 0.5, 1, 2, 3, 5, 7.5, 10, 15, 20, 30, 60, 120, 300)
# Long enough for Prometheus to see the last count of a revision, also through an outage.
_REMEMBERED_SECONDS = 3600.0

_Part = tuple[str, ...]
"""(namespace, model), or (namespace, model, revision)."""


class Metrics:
    """All metric families of one gateway."""

    def __init__(self, *, clock: Callable[[], float] = time.monotonic) -> None:
        """`clock` counts seconds."""
        self._clock = clock
        self._shown: frozenset[_Part] = frozenset()
        self._left_at: dict[_Part, float] = {}
        """When what is no longer in the table left it."""
        self.registry = CollectorRegistry()
        ProcessCollector(registry=self.registry)
        PlatformCollector(registry=self.registry)
        self.requests = Counter(
            "diffusion_gateway_requests",
            "Requests for a completion by HTTP code and the arm that answered; the arm's labels are empty when none did, the "
            "model's when it is not known. 499: the client left. A stream that broke off counts as 502.",
            (*_ARM, "code"),
            registry=self.registry,
        )
        self.fallbacks = Counter(
            "diffusion_gateway_fallbacks",
            "Requests that an arm gave up before the client saw anything, so that another arm was asked.",
            (*_ARM, "reason"),
            registry=self.registry,
        )
        self.failures = Counter(
            "diffusion_gateway_arm_failures",
            "Attempts that failed on a pod of an arm, or found none; also those after which nobody was left to ask.",
            (*_ARM, "reason"),
            registry=self.registry,
        )
        self.ruled = Counter(
            "diffusion_gateway_ruled_requests",
            "Requests that a rule sent to AR, whatever the weights say.",
            (*_MODEL, "rule"),
            registry=self.registry,
        )
        self.first_token_seconds = Histogram(
            "diffusion_gateway_time_to_first_token_seconds",
            "From the request's arrival to the first text from a worker, arms that failed before included.",
            _ARM,
            buckets=_FIRST_TOKEN_BUCKETS,
            registry=self.registry,
        )
        self.duration_seconds = Histogram(
            "diffusion_gateway_request_duration_seconds",
            "From the request's arrival to the end of the answer. Complete answers only.",
            _ARM,
            buckets=_TOTAL_BUCKETS,
            registry=self.registry,
        )
        self.output_tokens = Counter(
            "diffusion_gateway_output_tokens", "Tokens of complete answers.", _ARM, registry=self.registry
        )
        self.prompt_tokens = Counter(
            "diffusion_gateway_prompt_tokens", "Prompt tokens of complete answers.", _ARM, registry=self.registry
        )
        self.in_flight = Gauge(
            "diffusion_gateway_requests_in_flight",
            "Requests for a completion that are being answered.",
            registry=self.registry,
        )
        self.routes_generation = Gauge(
            "diffusion_gateway_routes_generation",
            "Generation of the route table in force.",
            _MODEL,
            registry=self.registry,
        )
        self.ready_pods = Gauge(
            "diffusion_gateway_ready_pods", "Pods that an arm can be asked on.", _ARM, registry=self.registry
        )

    def show_table(self, table: Table) -> None:
        """Show the table in force. Counts of what it no longer names stay for an hour."""
        self.routes_generation.clear()
        self.ready_pods.clear()
        for model in table.models.values():
            self.routes_generation.labels(model.namespace, model.name).set(model.generation)
            for arm in model.arms:
                self.ready_pods.labels(*arm_labels(model, arm)).set(len(table.targets(model, arm)))
        self._forget(_parts(table))

    def _forget(self, shown: frozenset[_Part]) -> None:
        """Drop the series of what left the table long ago. `shown` is what is in it now."""
        now = self._clock()
        self._left_at |= dict.fromkeys(self._shown - shown, now)
        self._shown = shown
        for part, left_at in list(self._left_at.items()):
            if part in shown:
                del self._left_at[part]
            elif now - left_at > _REMEMBERED_SECONDS:
                del self._left_at[part]
                self._drop(part)

    def _drop(self, part: _Part) -> None:
        labels = dict(zip((*_MODEL, "revision"), part, strict=False))
        per_arm = (
            self.requests,
            self.fallbacks,
            self.failures,
            self.first_token_seconds,
            self.duration_seconds,
            self.output_tokens,
            self.prompt_tokens,
        )
        for family in per_arm:
            family.remove_by_labels(labels)
        if "revision" not in labels:
            self.ruled.remove_by_labels(labels)

    def count_failure(self, model: Model, arm: RouteArm, reason: Reason) -> None:
        """An attempt failed."""
        self.failures.labels(*arm_labels(model, arm), reason.value).inc()

    def count_fallback(self, model: Model, arm: RouteArm, reason: Reason) -> None:
        """Another arm is asked after `arm`."""
        self.fallbacks.labels(*arm_labels(model, arm), reason.value).inc()


def _parts(table: Table) -> frozenset[_Part]:
    models = table.models.values()
    revisions = {(model.namespace, model.name, arm.revision) for model in models for arm in model.arms}
    return frozenset({(model.namespace, model.name) for model in models} | revisions)


def arm_labels(model: Model | None, arm: RouteArm | None) -> tuple[str, str, str, str, str]:
    """Values for namespace, model, arm, revision, kind."""
    names = (model.namespace, model.name) if model else ("", "")
    return (*names, arm.role.value, arm.revision, arm.kind.value) if arm else (*names, "", "", "")
