"""The route table and the choice of an arm: pure data and functions.

Nothing here knows of a socket, a clock or Kubernetes' JSON. `watch` builds a new `Table` on each change and swaps it in whole,
so a request sees one consistent table from beginning to end.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import cached_property

from diffusion_operator.api.models import FallbackEndpoint
from diffusion_operator.api.status import ArmKind, ArmRole, RouteArm

from .sticky import place
from .workload import Workload, detect

ENDPOINT_TARGET = "endpoint:"
"""How targets begin that are no pods."""

Random = Callable[[], float]
"""Draws uniformly from [0, 1)."""


@dataclass(frozen=True)
class Model:
    """What the gateway needs to know of one DiffusionModel."""

    namespace: str
    name: str
    generation: int
    arms: tuple[RouteArm, ...]
    created: int = 0
    """Seconds since the epoch."""
    min_output_tokens: int = 0
    """Requests for fewer tokens go to AR. 0: no such rule."""
    causal_workloads: frozenset[Workload] = frozenset()
    """Kinds of work that go to AR."""
    detects_workload: bool = False
    """Guess the kind of work from the prompt where the request does not say."""
    is_sticky: bool = False
    """Each user keeps to one arm."""
    refuses_unconverged: bool = False
    """An answer whose canvases hit the cap of steps is AR's to give."""
    sample_percent: float = 0.0
    """Share of the diffusion answers that AR answers too, to measure the quality in pairs."""
    max_sequence_length: int | None = None
    """Prompt and output tokens of one request that every arm takes. None: the models' own limit."""
    endpoint: FallbackEndpoint | None = None
    """The AR server that spec asks for. It may be no arm yet."""
    wait_seconds: float = 30.0
    """How long a pod may take to its first event while another arm could answer instead."""

    @property
    def key(self) -> str:
        """`<namespace>/<name>`."""
        return f"{self.namespace}/{self.name}"


@dataclass(frozen=True)
class ServiceKey:
    """A headless Service of a revision."""

    namespace: str
    name: str


@dataclass(frozen=True)
class Table:
    """All models and the addresses of the ready pods behind each Service."""

    models: Mapping[str, Model] = field(default_factory=dict)
    """By `<namespace>/<name>`."""
    pods: Mapping[ServiceKey, frozenset[str]] = field(default_factory=dict)
    """IP addresses of ready pods."""
    unready: Mapping[ServiceKey, frozenset[str]] = field(default_factory=dict)
    """Those of pods that are not ready, and not on their way out."""

    def find(self, name: str) -> Model | None:
        """The model called `<namespace>/<name>`, or the oldest that is called `<name>`.

        A name belongs to who had it first, so that a model of another team never breaks the clients of this one.
        """
        return self.models.get(name) if "/" in name else self._oldest.get(name)

    @cached_property
    def _oldest(self) -> Mapping[str, Model]:
        by_age = sorted(self.models.values(), key=lambda model: (model.created, model.namespace), reverse=True)
        return {model.name: model for model in by_age}

    def served(self) -> list[tuple[str, Model]]:
        """Models that have a route, each under the shortest name that finds it."""
        return [
            (model.name if self.find(model.name) is model else key, model)
            for key, model in sorted(self.models.items())
            if model.arms
        ]

    def targets(self, model: Model, arm: RouteArm) -> list[str]:
        """`host:port` of the ready pods of an arm; of one that is a server of others, its one target."""
        if arm.endpoint is not None:
            return [endpoint_target(model, arm)]
        return _addresses(self.pods, model, arm)

    def has_ready(self, model: Model, arm: RouteArm) -> bool:
        """Whether `targets` has any; cheaper than to list them."""
        return arm.endpoint is not None or bool(self.pods.get(ServiceKey(model.namespace, arm.service)))

    def last_resort(self, model: Model, arm: RouteArm) -> list[str]:
        """`host:port` of pods that are said to be not ready.

        After the API server was away for a minute Kubernetes calls every pod of a node unready for some seconds, however well they are.
        """
        return [] if arm.endpoint is not None else _addresses(self.unready, model, arm)

    def all_targets(self) -> frozenset[str]:
        """All targets of every arm."""
        return frozenset(
            target for model in self.models.values() for arm in model.arms for target in self.targets(model, arm)
        )


def _addresses(pods: Mapping[ServiceKey, frozenset[str]], model: Model, arm: RouteArm) -> list[str]:
    hosts = pods.get(ServiceKey(model.namespace, arm.service), frozenset())
    return [f"[{host}]:{arm.port}" if ":" in host else f"{host}:{arm.port}" for host in sorted(hosts)]


@dataclass(frozen=True)
class Plan:
    """The arms that may answer a request, in the order in which they are asked."""

    arms: tuple[RouteArm, ...]
    rule: str | None = None
    """The rule that overruled the weights."""


def plan(
    model: Model,
    *,
    max_tokens: int | None,
    forced: ArmRole | None,
    random: Random,
    autoregressive_only: bool = False,
    user: str | None = None,
    workload: Workload | None = None,
    text: str = "",
) -> Plan:
    """Choose who answers, and who takes over if that fails.

    A forced arm stands alone: who debugs an arm wants its failure, not another arm's answer. What a diffusion model cannot honour
    (`autoregressive_only`) goes to AR arms alone. An empty plan means that no arm fits. `text` is what the user asks, for models that
    guess the kind of work where the request gives no `workload`.
    """
    if forced is not None:
        fitting = (arm for arm in model.arms if arm.role == forced)
        return Plan(tuple(arm for arm in fitting if arm.kind == ArmKind.AR or not autoregressive_only)[:1])
    keeps_arm = model.is_sticky and user is not None
    weighted = weighted_arm(model.arms, random=lambda: place(model.key, user or "") if keeps_arm else random())
    ar = ar_arm(model.arms)
    if autoregressive_only:
        able = ar if ar is not None and ar.kind == ArmKind.AR else None
        return Plan(_distinct((able,)), rule=None if able is None or able == weighted else "autoregressive_only")
    if ar is None or ar == weighted:
        return Plan(_distinct((weighted,)))
    rule = _overruled_by(model, max_tokens=max_tokens, workload=workload, text=text)
    return Plan(_distinct((weighted, ar) if rule is None else (ar, weighted)), rule=rule)


def _overruled_by(model: Model, *, max_tokens: int | None, workload: Workload | None, text: str) -> str | None:
    """The rule by which AR is asked first."""
    if max_tokens is not None and max_tokens < model.min_output_tokens:
        return "short_output"
    if workload is not None:
        return workload.value if workload in model.causal_workloads else None
    if model.detects_workload and (guessed := detect(text)) in model.causal_workloads:
        return f"detected_{guessed}"
    return None


def weighted_arm(arms: tuple[RouteArm, ...], *, random: Random) -> RouteArm | None:
    """Draw an arm in proportion to the percents. None when no arm has any.

    The canary's part begins at 0, whatever else there is: when it grows, the draws that move are those that come to it.
    """
    candidates = sorted((arm for arm in arms if arm.percent > 0), key=lambda arm: arm.role != ArmRole.CANARY)
    mark = random() * sum(arm.percent for arm in candidates)
    for arm in candidates:
        mark -= arm.percent
        if mark < 0:
            return arm
    return candidates[-1] if candidates else None


def ar_arm(arms: tuple[RouteArm, ...]) -> RouteArm | None:
    """The arm that takes over: the fallback, or else any AR arm."""
    by_preference = sorted(arms, key=lambda arm: arm.role != ArmRole.FALLBACK)
    return next((arm for arm in by_preference if arm.kind == ArmKind.AR or arm.role == ArmRole.FALLBACK), None)


def endpoint_target(model: Model, arm: RouteArm) -> str:
    """The target of an arm that is a server of others: another one when its Secret is another."""
    ref = arm.endpoint.secret_ref if arm.endpoint else None
    return f"{ENDPOINT_TARGET}{model.key}/{arm.revision}" + (f"/{ref.name}/{ref.key}" if ref else "")


def _distinct(arms: tuple[RouteArm | None, ...]) -> tuple[RouteArm, ...]:
    """Without gaps, and without asking the same pods twice under two roles."""
    by_service: dict[str, RouteArm] = {}
    for arm in arms:
        if arm is not None:
            by_service.setdefault(arm.service or arm.revision, arm)
    return tuple(by_service.values())
