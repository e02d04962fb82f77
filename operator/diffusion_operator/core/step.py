"""The decision: from the resource and what was observed to the next status and what may be removed."""

from dataclasses import dataclass
from datetime import datetime

from diffusion_operator.api.conditions import ConditionType
from diffusion_operator.api.models import (
    Condition,
    DiffusionModel,
    DiffusionModelStatus,
    Phase,
    RevisionStatus,
    StatusOnly,
)

from . import defaults, report
from .advance import advance, is_at_rest
from .endpoints import endpoint_statuses, known_endpoints
from .observation import NO_PODS, Observation
from .retirement import lagging_gateways, removable, retained
from .revision import Wanted
from .rollout import Decision as RolloutDecision
from .rollout import Intent, Pace, RolloutPhase
from .routes import arms, next_table
from .scale import scale
from .situation import Situation
from .sized.size import size

# While a gateway has not confirmed the routes nothing else tells us that it did: it is asked again.
CONFIRMATION_SECONDS = 1.0


@dataclass(frozen=True, slots=True)
class Event:
    """Something that happened, for `kubectl describe`."""

    reason: str
    message: str
    is_warning: bool = False


@dataclass(frozen=True, slots=True)
class Settings:
    """What the operator was started with and decisions depend on. `pace` is None where the policy of each resource sets it."""

    worker_image: str
    gateway_url: str
    pace: Pace | None = None
    sizing: bool = False


@dataclass(frozen=True, slots=True)
class Decision:
    """What to write, in this order: status, children of its revisions, removal.

    `remove` are hashes of revisions whose objects must go. `look_again_seconds` is when to decide again even if
    nothing is heard; None when there is nothing to wait for but changes and the rollout's next look at metrics.
    `needs_gateways`: the decision depends on what gateways have in force. `rollout` is what the state machine said to
    `intent`; both are None where it was not asked.
    """

    status: DiffusionModelStatus
    remove: frozenset[str] = frozenset()
    events: tuple[Event, ...] = ()
    look_again_seconds: float | None = None
    needs_gateways: bool = False
    rollout: RolloutDecision | None = None
    intent: Intent | None = None


def step(model: DiffusionModel, observation: Observation, *, settings: Settings, now: datetime) -> Decision:
    """Decide. The same input gives the same decision; one that was written gives no new one, unless it says to look again."""
    before = model.status
    sized = size(model, observation.sizing, image=settings.worker_image, now=now, is_on=settings.sizing)
    asked = sized.wanted
    replicas = model.spec.replicas or defaults.REPLICAS
    known = _with_wanted(before.revisions, asked)
    revisions = {revision.hash: _seen(revision, observation) for revision in known}

    servers = known_endpoints(before, asked)
    endpoints = endpoint_statuses(servers, before=before.endpoints, reports=observation.endpoints)

    advanced = advance(
        model,
        asked,
        revisions=revisions,
        endpoints=endpoints,
        observation=observation,
        now=now,
        pace=settings.pace,
    )
    state = advanced.state
    routes = next_table(before.routes, arms(state, model=model.metadata.name, endpoints=servers))
    parts = {asked.diffusion.hash, asked.ar_hash, state.stable_revision, state.canary_revision, state.fallback_revision}
    named = {part for part in parts if part} | {arm.revision for arm in routes.arms}
    keep = named - servers.keys()
    # What gateways have in force can only be told of a table that is written already.
    stay = retained(list(revisions.values()), keep=keep, routes=before.routes, observation=observation)

    situation = Situation(
        wanted=asked,
        rollout=state,
        revisions={revision.hash: revision for revision in stay},
        replicas=replicas,
        observation=observation,
        lagging=lagging_gateways(routes, observation),
        sized=sized,
        endpoints={hash_: endpoints.get(hash_) for hash_ in servers},
    )
    found = report.findings(situation)
    scaled = scale(state, asked, model=model.metadata.name, observation=observation, endpoints=servers)
    status = DiffusionModelStatus(
        observed_generation=model.metadata.generation,
        phase=report.phase(found),
        url=settings.gateway_url,
        conditions=report.conditions(found, before=before.conditions, generation=model.metadata.generation, now=now),
        rollout=state,
        routes=routes,
        sizing=sized.status,
        endpoints=[status for hash_, status in sorted(endpoints.items()) if hash_ in named],
        # Objects are made of these: not yet of what is not known to fit.
        revisions=[revision for revision in stay if revision.hash not in sized.held],
        replicas=scaled.replicas,
        selector=scaled.selector,
    )
    remove = removable(list(revisions.values()), stay=stay, routes=before.routes, observation=observation)
    retires = len(stay) > len(keep) or bool(observation.children - {revision.hash for revision in stay} - remove)
    waits = (
        retires
        or advanced.decision.awaits_gateways
        or (state.phase is RolloutPhase.WAITING and bool(situation.lagging))
    )
    told = [Event(event.reason, event.message, is_warning=event.is_warning) for event in advanced.events]
    told_by_rollout = {_AS_CONDITION.get(event.reason, event.reason) for event in told}
    changes = (event for event in _events(before, status) if event.reason not in told_by_rollout)
    differences = (Event("MemoryDiffers", each.message, is_warning=each.is_more) for each in sized.differences)
    return Decision(
        status=status,
        remove=remove | sized.stale_jobs,
        events=(*told, *differences, *changes),
        look_again_seconds=CONFIRMATION_SECONDS if waits else sized.look_again_seconds,
        needs_gateways=retires or not is_at_rest(before.rollout, asked),
        rollout=advanced.decision,
        intent=advanced.intent,
    )


def refuse(resource: StatusOnly, message: str, *, now: datetime) -> Decision:
    """Decide about a spec that cannot be read: say so, and leave everything that serves as it is."""
    before = resource.status
    generation = resource.metadata.generation
    # Whether requests are answered does not depend on whether spec can be read: those conditions stay, where there are
    # any.
    kept = [
        condition.model_copy(update={"observed_generation": generation})
        for condition in before.conditions
        if condition.type in _KEPT_TYPES
    ]
    kept_types = {condition.type for condition in kept}
    found = [finding for finding in report.invalid(message) if finding[0].type not in kept_types]
    status = before.model_copy(
        update={
            "observed_generation": generation,
            "phase": Phase.DEGRADED if before.routes.arms else Phase.FAILED,
            "conditions": [
                *kept,
                *report.conditions(found, before=before.conditions, generation=generation, now=now),
            ],
        }
    )
    return Decision(status=status, events=_events(before, status))


def _with_wanted(revisions: list[RevisionStatus], asked: Wanted) -> list[RevisionStatus]:
    known = {revision.hash for revision in revisions}
    new = [revision for revision in (asked.diffusion, asked.ar) if revision and revision.hash not in known]
    return [*revisions, *new]


def _seen(revision: RevisionStatus, observation: Observation) -> RevisionStatus:
    ready = observation.pods.get(revision.hash, NO_PODS).ready
    return revision.model_copy(update={"ready_pods": ready, "has_been_ready": revision.has_been_ready or ready > 0})


def _events(before: DiffusionModelStatus, after: DiffusionModelStatus) -> tuple[Event, ...]:
    """What became different, once."""
    events = []
    if after.routes.generation != before.routes.generation:
        shares = ", ".join(f"{arm.role} {arm.revision} ({arm.kind}) {arm.percent}%" for arm in after.routes.arms)
        events.append(Event("RoutesChanged", f"Routes {after.routes.generation}: {shares or 'none'}."))
    earlier = {condition.type: condition for condition in before.conditions}
    for condition in after.conditions:
        old = earlier.get(condition.type)
        if _is_news(old, condition):
            events.append(Event(condition.reason, condition.message, is_warning=condition.reason in _WARNING_REASONS))
    return tuple(events)


def _is_news(old: Condition | None, new: Condition) -> bool:
    if old is None:
        return new.reason in _WARNING_REASONS
    return (old.status, old.reason) != (new.status, new.reason)


# What the rollout tells of its start, Progressing would tell again.
_AS_CONDITION = {"RolloutStarted": "CanaryServing"}

# Not those of an earlier release either.
_KEPT_TYPES = frozenset(ConditionType) - {ConditionType.PROGRESSING}

_WARNING_REASONS = frozenset(
    {
        "SpecInvalid",
        "ChildRejected",
        "PodsNotStarting",
        "DoesNotFit",
        "FactsUnavailable",
        "WrongModel",
        "EndpointModelMissing",
        "EndpointUnauthorized",
        "EndpointUnreachable",
        "FallbackNotReady",
        "FallbackUnavailable",
        "HeldTooLong",
        "MetricsUnreadable",
        "RolledBack",
        "RolloutHeld",
        "SecretMissing",
    }
)
