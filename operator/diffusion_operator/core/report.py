"""Phase and conditions: the state as people and tools read it."""

from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass
from datetime import datetime

from diffusion_operator.api import conditions as reasons
from diffusion_operator.api.conditions import Reason
from diffusion_operator.api.models import Condition, Phase, RevisionStatus, RolloutState
from diffusion_operator.api.rollout import Outcome, RolloutPhase
from diffusion_operator.api.status import LONGEST_MESSAGE

from .observation import NO_PODS, Observation
from .revision import Wanted
from .sized.size import Sized

Finding = tuple[Reason, str]


@dataclass(frozen=True, slots=True)
class Situation:
    """All that a report is made of."""

    wanted: Wanted
    rollout: RolloutState
    revisions: Mapping[str, RevisionStatus]
    replicas: int
    observation: Observation
    lagging: tuple[str, ...]
    not_acted_on: tuple[str, ...]
    sized: Sized


def findings(situation: Situation) -> tuple[Finding, ...]:
    """One finding for each condition type."""
    return (
        _ready(situation),
        _progressing(situation),
        _fallback_available(situation),
        (situation.sized.reason, situation.sized.message),
        _metrics_available(situation.rollout),
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
        (reasons.NOTHING_MEASURED, text),
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
    if names & {reasons.INVALID, reasons.CHILD_REJECTED, reasons.PODS_NOT_STARTING, reasons.HELD_BY_SIZING}:
        return Phase.FAILED if reasons.SERVING not in names else Phase.DEGRADED
    if reasons.SERVING not in names:
        return Phase.PENDING
    if names & {reasons.ARM_DOWN, reasons.FALLBACK_NOT_READY, reasons.ROLLED_BACK, reasons.ROLLBACK_BLOCKED}:
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
    return _obstacle(situation) or _on_the_way(situation)


def _obstacle(situation: Situation) -> Finding | None:
    """What keeps spec from having its way and does not go away by waiting."""
    rollout, rejected = situation.rollout, situation.observation.rejected
    if rejected:
        return reasons.CHILD_REJECTED, rejected
    stuck = list(_stuck(situation))
    if stuck:
        return reasons.PODS_NOT_STARTING, " ".join(_explained(revision, situation) for revision in stuck)
    if rollout.phase is RolloutPhase.ROLLBACK_BLOCKED:
        return reasons.ROLLBACK_BLOCKED, rollout.message
    held = situation.sized.held
    if set(held.values()) - {reasons.INSPECTING}:
        return reasons.HELD_BY_SIZING, f"{_listed(held)}: no pods are made, see the condition Sized."
    if _waits_for_stable(situation):
        return reasons.WAITING_FOR_STABLE, (
            f"{_pods(situation.revisions[situation.wanted.diffusion.hash])} waits for an AR pod to serve the rest. "
            + " ".join(_explained(revision, situation) for revision in _coming(situation))
        )
    return None


def _on_the_way(situation: Situation) -> Finding:
    rollout, held, coming = situation.rollout, situation.sized.held, list(_coming(situation))
    down = [revision for revision in _routed(situation) if not revision.ready_pods]
    if down:
        return reasons.ARM_DOWN, " ".join(_explained(revision, situation) for revision in down)
    if coming:
        serves = {revision.hash for revision in _routed(situation)}
        starting = [revision for revision in coming if revision.hash not in serves]
        reason = reasons.REVISION_STARTING if starting else reasons.PODS_NOT_READY
        return reason, " ".join(_explained(revision, situation) for revision in starting or coming)
    if held:
        return (
            reasons.INSPECTING_FIRST,
            f"{_listed(held)}: pods are made once it is known to fit, see the condition Sized.",
        )
    if rollout.phase is not RolloutPhase.PROMOTED:
        return _climbing(rollout)
    retiring = sorted(situation.revisions.keys() - _parts(situation))
    if retiring:
        waits = f" Gateways that have not confirmed: {', '.join(situation.lagging)}." if situation.lagging else ""
        return reasons.RETIRING, f"Waiting for gateways to leave {', '.join(retiring)}.{waits}"
    return reasons.SETTLED, "All is as spec asks."


def _climbing(rollout: RolloutState) -> Finding:
    match rollout.phase:
        case RolloutPhase.PAUSED:
            return reasons.PAUSED, rollout.message
        case RolloutPhase.HELD:
            return reasons.HELD_TOO_LONG if rollout.is_overdue else reasons.ROLLOUT_HELD, rollout.message
        case RolloutPhase.ROLLED_BACK:
            return reasons.ROLLED_BACK, rollout.message
        case RolloutPhase.WAITING:
            return reasons.ROLLOUT_WAITING, rollout.message
        case _:
            return reasons.CANARY_SERVING, rollout.message


def _waits_for_stable(situation: Situation) -> bool:
    """Whether diffusion could serve, and the AR model that should serve the rest never could."""
    rollout, wanted = situation.rollout, situation.wanted
    serves = rollout.stable_revision or rollout.canary_revision or rollout.fallback_revision
    return (
        not serves
        and wanted.ar is not None
        and situation.revisions[wanted.diffusion.hash].ready_pods > 0
        and rollout.phase is RolloutPhase.WAITING
    )


def _metrics_available(rollout: RolloutState) -> Finding:
    if not (rollout.stable or rollout.canary) or not rollout.gates:
        return reasons.NOTHING_MEASURED, "No diffusion revision was measured yet."
    unreadable = [gate for gate in rollout.gates if gate.verdict is Outcome.ERROR]
    if unreadable:
        return reasons.METRICS_UNREADABLE, " ".join(f"{gate.gate}: {gate.message}" for gate in unreadable)
    return reasons.METRICS_READ, "Every gate has data, or waits for more of it."


def _fallback_available(situation: Situation) -> Finding:
    if situation.wanted.ar is None:
        return reasons.FALLBACK_NOT_SERVED, (
            "fallback.endpoint is not acted on yet; diffusion serves all requests once it is ready."
        )
    serving = situation.rollout.fallback_revision
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
    rollout, wanted = situation.rollout, situation.wanted
    parts = {
        wanted.diffusion.hash,
        rollout.stable_revision,
        rollout.canary_revision,
        rollout.fallback_revision,
    }
    if wanted.ar:
        parts.add(wanted.ar.hash)
    return {part for part in parts if part}


def _routed(situation: Situation) -> Iterator[RevisionStatus]:
    """Revisions that requests are sent to, by share or as the fallback."""
    rollout = situation.rollout
    hashes = (rollout.stable_revision, rollout.canary_revision, rollout.fallback_revision)
    return (situation.revisions[hash_] for hash_ in hashes if hash_)


def _coming(situation: Situation) -> Iterator[RevisionStatus]:
    """Wanted revisions that do not have all their pods yet, and may have them."""
    for wanted in (situation.wanted.diffusion, situation.wanted.ar):
        if wanted is None or wanted.hash in situation.sized.held:
            continue
        if situation.revisions[wanted.hash].ready_pods < situation.replicas:
            yield situation.revisions[wanted.hash]


def _listed(held: Collection[str]) -> str:
    return f"Revision{'s' if len(held) > 1 else ''} {', '.join(sorted(held))}"


def _stuck(situation: Situation) -> Iterator[RevisionStatus]:
    """Revisions whose pods do not start. Also one that serves: pods that should replace its pods may be stuck as well."""
    for hash_ in sorted(_parts(situation) & situation.revisions.keys()):
        if situation.observation.pods.get(hash_, NO_PODS).stuck:
            yield situation.revisions[hash_]


def _pods(revision: RevisionStatus) -> str:
    return f"{revision.template.kind} revision {revision.hash} ({revision.ready_pods} ready)"


def _explained(revision: RevisionStatus, situation: Situation) -> str:
    waiting = situation.observation.pods.get(revision.hash, NO_PODS).waiting_for
    numbers = (
        f"{revision.template.kind} revision {revision.hash} has {revision.ready_pods} of {situation.replicas} pods "
        f"ready"
    )
    return f"{numbers}: {waiting}." if waiting else f"{numbers}."
