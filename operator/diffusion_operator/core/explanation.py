"""What happened to a rollout and why, in plain words: the text of `diffusion-operator explain`."""

from collections.abc import Collection, Iterator
from dataclasses import dataclass
from datetime import datetime

from diffusion_operator.api import labels
from diffusion_operator.api.conditions import REASONS
from diffusion_operator.api.models import ConditionStatus, DiffusionModel, RolloutState
from diffusion_operator.api.rollout import RolloutPhase, Watched

from .rollout import MEANS, Policy, Verb, policy

_LATEST_EVENTS = 15

# What makes sense to ask for in each phase.
_CHOICES = {
    RolloutPhase.WAITING: (Verb.PAUSE, Verb.PROMOTE_ALL, Verb.ABORT),
    RolloutPhase.OBSERVING: (Verb.PAUSE, Verb.PROMOTE, Verb.PROMOTE_ALL, Verb.ABORT),
    RolloutPhase.HELD: (Verb.PROMOTE, Verb.PROMOTE_ALL, Verb.PAUSE, Verb.ABORT),
    RolloutPhase.PAUSED: (Verb.RESUME, Verb.PROMOTE, Verb.PROMOTE_ALL, Verb.ABORT),
    RolloutPhase.ROLLBACK_BLOCKED: (),
    RolloutPhase.ROLLED_BACK: (Verb.RETRY,),
    RolloutPhase.PROMOTED: (Verb.ABORT,),
}


@dataclass(frozen=True, slots=True)
class SeenEvent:
    """An event about the resource as the API server keeps it, for an hour or so."""

    at: datetime
    reason: str
    message: str
    count: int = 1


def explain(model: DiffusionModel, events: Collection[SeenEvent], *, now: datetime) -> str:
    """The whole story, as far as the resource and its events still tell it."""
    parts = (
        _headline(model),
        _arms(model),
        _standing(model, now=now),
        _gates(model.status.rollout),
        _trouble(model),
        _history(model.status.rollout),
        _events(events),
        _choices(model),
    )
    return "\n\n".join("\n".join(part) for part in map(list, parts) if part) + "\n"


def _headline(model: DiffusionModel) -> Iterator[str]:
    status, rollout = model.status, model.status.rollout
    if status.phase is None:
        yield f"{model.metadata.namespace}/{model.metadata.name}: no operator has looked at it yet."
        return
    step = f", step {rollout.step}" if rollout.step else ""
    yield f"{model.metadata.namespace}/{model.metadata.name}: {status.phase}, rollout {rollout.phase}{step}"
    if status.observed_generation != model.metadata.generation:
        yield "The last change of spec was not looked at yet: is the operator running?"


def _arms(model: DiffusionModel) -> Iterator[str]:
    arms = model.status.routes.arms
    if arms:
        yield "Who serves:"
    for arm in arms:
        yield f"  {arm.percent:3d}%  {arm.role:<8}  {arm.kind:<9}  {arm.revision}"


def _standing(model: DiffusionModel, *, now: datetime) -> Iterator[str]:
    rollout, asked = model.status.rollout, policy(model.spec)
    if not rollout.message:
        return
    yield "Where it stands:"
    yield f"  {rollout.message}"
    if rollout.canary:
        yield f"  {_observed(rollout.canary, asked)}"
    if rollout.held_since:
        then = "is rolled back" if asked.rolls_back_when_overdue else "stays held until a person decides"
        yield (
            f"  Held for {_duration((now - rollout.held_since).total_seconds())}, since {_time(rollout.held_since)}; after "
            f"{_duration(asked.max_hold_seconds)} (maxHold) it {then}."
        )
    if rollout.failure:
        failure = rollout.failure
        yield f"  {failure.revision} lost its requests at {_time(failure.at)} ({failure.reason}): {failure.message}"
    if rollout.handled_command:
        yield f"  The last command by annotation was {rollout.handled_command!r}."


def _observed(watched: Watched, asked: Policy) -> str:
    counted, whole = _duration(watched.observed_seconds), _duration(asked.step_seconds)
    if watched.accounted_at is None:
        return f"Nothing of the {whole} of this step was observed yet: gateways must have the weight in force first."
    state = "counts" if watched.is_observing else "does not count"
    return (
        f"{counted} of the {whole} of this step were observed by {_time(watched.accounted_at)}, when that was written "
        f"last; time {state} since then."
    )


def _gates(rollout: RolloutState) -> Iterator[str]:
    watched = rollout.canary or rollout.stable
    if not rollout.gates:
        return
    yield f"What the gates said last{f' of {watched.revision}' if watched else ''}:"
    for gate in rollout.gates:
        value = "no value" if gate.value is None else f"{gate.value:.4g}"
        yield f"  {gate.verdict:<12}  {gate.gate:<16}  {value}, limit {gate.limit:g}, {gate.samples:,.0f} samples"
        yield f"                {gate.message}"


def _trouble(model: DiffusionModel) -> Iterator[str]:
    remedies: dict[tuple[str, str], str] = {(reason.type, reason.name): reason.remedy for reason in REASONS}
    found = [
        condition
        for condition in model.status.conditions
        if condition.status is ConditionStatus.FALSE
        and remedies.get((condition.type, condition.reason), "Nothing.") != "Nothing."
    ]
    if found:
        yield "What is not as it should be:"
    for condition in found:
        yield f"  {condition.type} is False, {condition.reason}: {condition.message}"
        yield f"    {remedies[condition.type, condition.reason]}"


def _history(rollout: RolloutState) -> Iterator[str]:
    if rollout.history:
        yield "What changed (the last twenty):"
    for change in rollout.history:
        yield f"  {_time(change.at)}  {change.revision} to {change.percent}%, {change.reason}"


def _events(events: Collection[SeenEvent]) -> Iterator[str]:
    latest = sorted(events, key=lambda event: event.at)[-_LATEST_EVENTS:]
    if latest:
        yield "Events (Kubernetes keeps them for about an hour; the operator's log keeps each decision with its numbers):"
    for event in latest:
        times = f" ({event.count} times)" if event.count > 1 else ""
        yield f"  {_time(event.at)}  {event.reason}: {event.message}{times}"


def _choices(model: DiffusionModel) -> Iterator[str]:
    choices = _CHOICES[model.status.rollout.phase] if model.status.phase else ()
    if choices:
        yield "What you can ask for:"
    for verb in choices:
        yield f"  {verb}: {MEANS[verb]}"
    if choices:
        target = f"-n {model.metadata.namespace} annotate dm {model.metadata.name}"
        yield "by (what stands after the colon is yours; it makes a command new):"
        yield f"  kubectl {target} --overwrite {labels.ROLLOUT_COMMAND}={choices[0]}:$(date +%s)"


def _time(at: datetime) -> str:
    return f"{at:%Y-%m-%d %H:%M:%S} UTC"


def _duration(seconds: float) -> str:
    minutes, rest = divmod(round(max(0.0, seconds)), 60)
    hours, minutes = divmod(minutes, 60)
    if hours:
        return f"{hours}h{minutes:02d}m"
    return f"{minutes}m{rest:02d}s" if minutes else f"{rest}s"
