"""Phase and conditions: the state as people and tools read it."""

from collections.abc import Collection
from datetime import datetime

from diffusion_operator.api import conditions as reasons
from diffusion_operator.api.conditions import Reason
from diffusion_operator.api.models import (
    Condition,
    EndpointState,
    Phase,
    RolloutState,
)
from diffusion_operator.api.rollout import Outcome, RolloutPhase
from diffusion_operator.api.status import LONGEST_MESSAGE

from .endpoints import cannot_score
from .situation import Situation

Finding = tuple[Reason, str]

_BY_STATE = {
    EndpointState.READY: reasons.ENDPOINT_READY,
    EndpointState.UNREACHABLE: reasons.ENDPOINT_UNREACHABLE,
    EndpointState.UNAUTHORIZED: reasons.ENDPOINT_UNAUTHORIZED,
    EndpointState.SECRET_MISSING: reasons.SECRET_MISSING,
    EndpointState.MODEL_MISSING: reasons.ENDPOINT_MODEL_MISSING,
}


def findings(situation: Situation) -> tuple[Finding, ...]:
    """One finding for each condition type."""
    return (
        _ready(situation),
        _progressing(situation),
        _fallback_available(situation),
        (situation.sized.reason, situation.sized.message),
        _metrics_available(situation),
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
    if names & _DEGRADED:
        return Phase.DEGRADED
    if names & {reasons.SETTLED, reasons.PAUSED}:
        return Phase.SERVING
    return Phase.PROGRESSING


_DEGRADED = frozenset(
    {
        reasons.ARM_DOWN,
        reasons.FALLBACK_NOT_READY,
        reasons.ENDPOINT_MODEL_MISSING,
        reasons.ENDPOINT_UNAUTHORIZED,
        reasons.ENDPOINT_UNREACHABLE,
        reasons.ROLLBACK_BLOCKED,
        reasons.ROLLED_BACK,
        reasons.SECRET_MISSING,
    }
)


def _ready(situation: Situation) -> Finding:
    routed = situation.routed
    serving = [situation.named(hash_) for hash_ in routed if situation.is_ready(hash_)]
    if serving:
        return reasons.SERVING, f"Requests are answered by {', '.join(serving)}."
    named = ", ".join(situation.named(hash_) for hash_ in routed)
    return reasons.NO_READY_POD, f"No routed revision is ready: {named}." if named else "No revision was ready yet."


def _progressing(situation: Situation) -> Finding:
    return _obstacle(situation) or _on_the_way(situation)


def _obstacle(situation: Situation) -> Finding | None:
    """What keeps spec from having its way and does not go away by waiting."""
    rollout, rejected = situation.rollout, situation.observation.rejected
    if rejected:
        return reasons.CHILD_REJECTED, rejected
    if situation.stuck:
        return reasons.PODS_NOT_STARTING, " ".join(situation.explained(hash_) for hash_ in situation.stuck)
    if rollout.phase is RolloutPhase.ROLLBACK_BLOCKED:
        return reasons.ROLLBACK_BLOCKED, rollout.message
    held = situation.sized.held
    if set(held.values()) - {reasons.INSPECTING}:
        return reasons.HELD_BY_SIZING, f"{_listed(held)}: no pods are made, see the condition Sized."
    if _waits_for_stable(situation):
        diffusion, ar = situation.wanted.diffusion.hash, situation.wanted.ar_hash
        return reasons.WAITING_FOR_STABLE, (
            f"{situation.named(diffusion)} waits for AR to serve the rest. {situation.explained(ar)}"
        )
    return None


def _on_the_way(situation: Situation) -> Finding:
    rollout, held, coming = situation.rollout, situation.sized.held, situation.coming
    down = [hash_ for hash_ in situation.routed if not situation.is_ready(hash_)]
    if down:
        return reasons.ARM_DOWN, " ".join(situation.explained(hash_) for hash_ in down)
    if coming:
        starting = [hash_ for hash_ in coming if hash_ not in situation.routed]
        reason = reasons.REVISION_STARTING if starting else reasons.PODS_NOT_READY
        return reason, " ".join(situation.explained(hash_) for hash_ in starting or coming)
    if held:
        return (
            reasons.INSPECTING_FIRST,
            f"{_listed(held)}: pods are made once it is known to fit, see the condition Sized.",
        )
    ar = situation.wanted.ar_hash
    if situation.wanted.endpoint and rollout.fallback_revision != ar:
        return reasons.WAITING_FOR_ENDPOINT, situation.explained(ar)
    if rollout.phase is not RolloutPhase.PROMOTED:
        return _climbing(rollout)
    retiring = sorted(situation.revisions.keys() - situation.parts)
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
        and situation.revisions[wanted.diffusion.hash].ready_pods > 0
        and rollout.phase is RolloutPhase.WAITING
    )


def _metrics_available(situation: Situation) -> Finding:
    rollout = situation.rollout
    if not (rollout.stable or rollout.canary) or not rollout.gates:
        return reasons.NOTHING_MEASURED, "No diffusion revision was measured yet."
    unreadable = [gate for gate in rollout.gates if gate.verdict is Outcome.ERROR]
    if unreadable:
        return reasons.METRICS_UNREADABLE, " ".join(f"{gate.gate}: {gate.message}" for gate in unreadable)
    unjudged = " There is no gate on perplexity: the AR server cannot score." if situation.cannot_score else ""
    return reasons.METRICS_READ, f"Every gate has data, or waits for more of it.{unjudged}"


def _fallback_available(situation: Situation) -> Finding:
    serving = situation.rollout.fallback_revision
    ar = serving or situation.wanted.ar_hash
    if ar in situation.endpoints:
        return _endpoint_available(ar, situation)
    if serving is None:
        return reasons.FALLBACK_STARTING, situation.explained(ar)
    if situation.is_ready(serving):
        return reasons.FALLBACK_READY, f"{situation.named(serving)} can take over."
    return reasons.FALLBACK_NOT_READY, situation.explained(serving)


def _endpoint_available(hash_: str, situation: Situation) -> Finding:
    status = situation.endpoints[hash_]
    if status is None:
        return reasons.ENDPOINT_UNKNOWN, f"No gateway has asked endpoint {hash_} yet."
    if not status.is_ready:
        return _BY_STATE[status.state], situation.explained(hash_)
    if cannot_score(status):
        return reasons.ENDPOINT_CANNOT_SCORE, (
            f"Endpoint {hash_} can take over. It gives no log-probabilities of prompts: there are no pairs and no gate on "
            "perplexity."
        )
    scored = "" if status.scores is None else f" It scores texts after {' and '.join(status.scores)}."
    return reasons.ENDPOINT_READY, f"Endpoint {hash_} can take over.{scored}"


def _listed(held: Collection[str]) -> str:
    return f"Revision{'s' if len(held) > 1 else ''} {', '.join(sorted(held))}"
