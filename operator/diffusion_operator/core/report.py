"""Phase and conditions: the state as people and tools read it."""

from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass
from datetime import datetime

from diffusion_operator.api import conditions as reasons
from diffusion_operator.api.conditions import Reason
from diffusion_operator.api.models import Condition, Phase, RevisionStatus
from diffusion_operator.api.status import LONGEST_MESSAGE

from .observation import NO_PODS, Observation
from .revision import Wanted
from .routes import Plan

Finding = tuple[Reason, str]


@dataclass(frozen=True, slots=True)
class Situation:
    """All that a report is made of."""

    wanted: Wanted
    chosen: Plan
    revisions: Mapping[str, RevisionStatus]
    replicas: int
    observation: Observation
    lagging: tuple[str, ...]
    not_acted_on: tuple[str, ...]


def findings(situation: Situation) -> tuple[Finding, ...]:
    """One finding for each condition type."""
    return (
        _ready(situation),
        _progressing(situation),
        _fallback_available(situation),
        (reasons.SIZING_OFF, "Limits are taken as they are written: the operator runs with --sizing=off."),
        _spec_applied(situation),
    )


def invalid(message: str) -> tuple[Finding, ...]:
    """Findings for a spec that cannot be read."""
    text = f"spec cannot be read: {message}"
    return (
        (reasons.INVALID, text),
        (reasons.INVALID_PROGRESSING, text),
        (reasons.FALLBACK_UNKNOWN, text),
        (reasons.INVALID_SIZED, text),
        (reasons.INVALID_SPEC_APPLIED, text),
    )


def conditions(
    found: Collection[Finding], *, before: Collection[Condition], generation: int, now: datetime
) -> list[Condition]:
    """Conditions from findings. The time of transition stays while the status stays; messages too long are cut."""
    earlier = {condition.type: condition for condition in before}
    result = []
    for reason, message in found:
        old = earlier.get(reason.type)
        unchanged = old is not None and old.status == reason.status
        result.append(
            Condition(
                type=reason.type,
                status=reason.status,
                reason=reason.name,
                message=message if len(message) <= LONGEST_MESSAGE else f"{message[: LONGEST_MESSAGE - 4]} ...",
                observed_generation=generation,
                last_transition_time=old.last_transition_time if unchanged and old else now,
            )
        )
    return result


def phase(found: Collection[Finding]) -> Phase:
    """The state in one word."""
    names = {reason for reason, _ in found}
    if names & {reasons.INVALID, reasons.CHILD_REJECTED, reasons.PODS_NOT_STARTING}:
        return Phase.FAILED if reasons.SERVING not in names else Phase.DEGRADED
    if reasons.SERVING not in names:
        return Phase.PENDING
    if names & {reasons.ARM_DOWN, reasons.FALLBACK_NOT_READY}:
        return Phase.DEGRADED
    if names & {reasons.SETTLED, reasons.PAUSED}:
        return Phase.SERVING
    return Phase.PROGRESSING


def _ready(situation: Situation) -> Finding:
    serving = [revision for revision in _routed(situation) if revision.ready_pods]
    if serving:
        return reasons.SERVING, "Requests are answered by " + ", ".join(map(_pods, serving)) + "."
    routed = ", ".join(map(_pods, _routed(situation)))
    return reasons.NO_READY_POD, f"No routed revision has a ready pod: {routed}." if routed else (
        "No revision has had a ready pod yet."
    )


def _progressing(situation: Situation) -> Finding:
    chosen, observation = situation.chosen, situation.observation
    if observation.rejected:
        return reasons.CHILD_REJECTED, observation.rejected
    coming = list(_coming(situation))
    stuck = [revision for revision in coming if observation.pods.get(revision.hash, NO_PODS).stuck]
    if stuck:
        return reasons.PODS_NOT_STARTING, " ".join(_explained(revision, situation) for revision in stuck)
    if chosen.waits_for_stable:
        return reasons.WAITING_FOR_STABLE, (
            f"{_pods(situation.revisions[situation.wanted.diffusion.hash])} waits for an AR pod to serve the rest. "
            + " ".join(_explained(revision, situation) for revision in coming)
        )
    down = [revision for revision in _routed(situation) if not revision.ready_pods]
    if down:
        return reasons.ARM_DOWN, " ".join(_explained(revision, situation) for revision in down)
    if coming:
        serves = {revision.hash for revision in _routed(situation)}
        starting = [revision for revision in coming if revision.hash not in serves]
        reason = reasons.REVISION_STARTING if starting else reasons.PODS_NOT_READY
        return reason, " ".join(_explained(revision, situation) for revision in starting or coming)
    if chosen.held_by_pause:
        return reasons.PAUSED, f"rollout.paused holds the canary at {chosen.canary_percent} percent."
    if chosen.canary:
        return reasons.CANARY_SERVING, (
            f"Revision {chosen.canary} serves {chosen.canary_percent} percent of the requests as the canary."
        )
    retiring = sorted(situation.revisions.keys() - _parts(situation))
    if retiring:
        waits = f" Gateways that have not confirmed: {', '.join(situation.lagging)}." if situation.lagging else ""
        return reasons.RETIRING, f"Waiting for gateways to leave {', '.join(retiring)}.{waits}"
    return reasons.SETTLED, "All is as spec asks."


def _fallback_available(situation: Situation) -> Finding:
    if situation.wanted.ar is None:
        return reasons.FALLBACK_NOT_SERVED, (
            "fallback.endpoint is not acted on yet; diffusion serves all requests once it is ready."
        )
    serving = situation.chosen.fallback
    if serving is None:
        return reasons.FALLBACK_STARTING, _explained(situation.revisions[situation.wanted.ar.hash], situation)
    revision = situation.revisions[serving]
    if revision.ready_pods:
        return reasons.FALLBACK_READY, f"{_pods(revision)} can take over."
    return reasons.FALLBACK_NOT_READY, _explained(revision, situation)


def _spec_applied(situation: Situation) -> Finding:
    if situation.not_acted_on:
        return reasons.NOT_ACTED_ON_YET, f"Stored, not acted on yet: {', '.join(situation.not_acted_on)}."
    return reasons.APPLIED, "Every field that is set has an effect."


def _parts(situation: Situation) -> set[str]:
    """Hashes of all revisions that have a part to play now or soon."""
    chosen, wanted = situation.chosen, situation.wanted
    parts = {wanted.diffusion.hash, chosen.stable, chosen.canary, chosen.fallback}
    if wanted.ar:
        parts.add(wanted.ar.hash)
    return {part for part in parts if part}


def _routed(situation: Situation) -> Iterator[RevisionStatus]:
    """Revisions that requests are sent to, by share or as the fallback."""
    hashes = (situation.chosen.stable, situation.chosen.canary, situation.chosen.fallback)
    return (situation.revisions[hash_] for hash_ in hashes if hash_)


def _coming(situation: Situation) -> Iterator[RevisionStatus]:
    """Wanted revisions that do not have all their pods yet."""
    for wanted in (situation.wanted.diffusion, situation.wanted.ar):
        if wanted is not None and situation.revisions[wanted.hash].ready_pods < situation.replicas:
            yield situation.revisions[wanted.hash]


def _pods(revision: RevisionStatus) -> str:
    return f"{revision.template.kind} revision {revision.hash} ({revision.ready_pods} ready)"


def _explained(revision: RevisionStatus, situation: Situation) -> str:
    waiting = situation.observation.pods.get(revision.hash, NO_PODS).waiting_for
    numbers = (
        f"{revision.template.kind} revision {revision.hash} has {revision.ready_pods} of {situation.replicas} pods "
        f"ready"
    )
    return f"{numbers}: {waiting}." if waiting else f"{numbers}."
