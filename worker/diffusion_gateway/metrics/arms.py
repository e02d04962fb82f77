"""Arms: what is in force, who was asked, and who failed."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial

from diffusion_operator.api.status import RouteArm

from ..reasons import Reason
from ..routes import Model, Table
from .families import Families
from .labels import ARM, MODEL, arm_labels

_NOT_THE_ARMS_FAULT = frozenset({Reason.GATEWAY_STOPS})


@dataclass(frozen=True)
class _Shown:
    model: Model
    arm: RouteArm
    targets: tuple[str, ...]

    def looks_like(self, other: "_Shown | None") -> bool:
        return other is not None and (self.targets, self.arm.endpoint) == (other.targets, other.arm.endpoint)


class ArmMetrics:
    """One request may ask several arms, each once."""

    def __init__(self, families: Families) -> None:
        self._generations: dict[tuple[str, ...], int] = {}
        self._arms: dict[tuple[str, ...], _Shown] = {}
        """What the gauges show, by their labels."""
        self.open_breakers: Callable[[Sequence[str]], int] = lambda _: 0
        """How many of these pods (`host:port`) have an open breaker; asked at each scrape."""
        self.endpoint_ready: Callable[[Model, RouteArm], bool] = lambda _, __: False
        """Whether the server answers that an arm is instead of pods; asked at each scrape."""
        self.requests = families.counter(
            "arm_requests", "Requests that asked this arm, once each however many of its pods were tried.", ARM
        )
        self.failed_requests = families.counter(
            "arm_failed_requests",
            "Those of the arm's requests that it failed, whether or not another arm took over. Not failed: requests that are "
            "at fault themselves, clients that leave, a gateway that stops, and answers that do not converge or repeat themselves, "
            "which are counted on their own.",
            ARM,
        )
        self.fallbacks = families.counter(
            "fallbacks",
            "Requests that an arm gave up before the client saw anything, so that another arm was asked.",
            (*ARM, "reason"),
        )
        self.failures = families.counter(
            "arm_failures",
            "Attempts that failed on a pod of an arm, or found none; also those after which nobody was left to ask.",
            (*ARM, "reason"),
        )
        self.routes_generation = families.gauge("routes_generation", "Generation of the route table in force.", MODEL)
        self.ready_pods = families.gauge(
            "ready_pods", "Pods that an arm can be asked on; 1 or 0 for a server of fallback.endpoint.", ARM
        )
        self.breaker_open = families.gauge(
            "breaker_open", "Pods of an arm that are not asked because they failed or were slow of late.", ARM
        )

    def show_table(self, table: Table) -> None:
        """Show what is in force.

        Only what changed is touched: with a thousand models requests would wait for the others, and a scrape would find them gone.
        """
        generations: dict[tuple[str, ...], int] = {
            (model.namespace, model.name): model.generation for model in table.models.values()
        }
        for gone in self._generations.keys() - generations.keys():
            self.routes_generation.remove(*gone)
        for labels, generation in generations.items():
            if self._generations.get(labels) != generation:
                self.routes_generation.labels(*labels).set(generation)
        arms: dict[tuple[str, ...], _Shown] = {
            arm_labels(model, arm): _Shown(model, arm, tuple(table.targets(model, arm)))
            for model in table.models.values()
            for arm in model.arms
        }
        for gone in self._arms.keys() - arms.keys():
            self.ready_pods.remove(*gone)
            self.breaker_open.remove(*gone)
        for labels, shown in arms.items():
            if not shown.looks_like(self._arms.get(labels)):
                self._show_arm(labels, shown)
        self._generations, self._arms = generations, arms

    def _show_arm(self, labels: tuple[str, ...], shown: _Shown) -> None:
        if shown.arm.endpoint is None:
            self.ready_pods.labels(*labels).set(len(shown.targets))
        else:
            self.ready_pods.labels(*labels).set_function(partial(self._endpoint_ready, shown.model, shown.arm))
        self.breaker_open.labels(*labels).set_function(partial(self._open_breakers, shown.targets))

    def begin(self, model: Model, arm: RouteArm) -> None:
        """Let what an arm is judged by begin at 0."""
        for family in (self.requests, self.failed_requests):
            family.labels(*arm_labels(model, arm))

    def count_asked(self, model: Model, arm: RouteArm) -> None:
        """A request asks this arm."""
        self.requests.labels(*arm_labels(model, arm)).inc()

    def count_failed(self, model: Model, arm: RouteArm, reason: Reason) -> None:
        """The arm failed a request that it was asked."""
        if reason not in _NOT_THE_ARMS_FAULT:
            self.failed_requests.labels(*arm_labels(model, arm)).inc()

    def count_failure(self, model: Model, arm: RouteArm, reason: Reason) -> None:
        """An attempt failed."""
        self.failures.labels(*arm_labels(model, arm), reason.value).inc()

    def count_fallback(self, model: Model, arm: RouteArm, reason: Reason) -> None:
        """Another arm is asked after `arm`."""
        self.fallbacks.labels(*arm_labels(model, arm), reason.value).inc()

    def _endpoint_ready(self, model: Model, arm: RouteArm) -> float:
        return self.endpoint_ready(model, arm)

    def _open_breakers(self, targets: Sequence[str]) -> float:
        return self.open_breakers(targets)
