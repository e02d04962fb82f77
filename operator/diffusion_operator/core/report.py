"""Phase and conditions: the state as people and tools read it."""

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from datetime import datetime

from diffusion_operator.api import conditions as reasons
from diffusion_operator.api.conditions import Reason
from diffusion_operator.api.models import (
    Condition,
    EndpointState,
    EndpointStatus,
    Phase,
    RevisionStatus,
    RolloutState,
)
from diffusion_operator.api.rollout import Outcome, RolloutPhase
from diffusion_operator.api.status import LONGEST_MESSAGE

from .endpoints import cannot_score
from .observation import NO_PODS, Observation
from .revision import Wanted
from .sized.size import Sized

Finding = tuple[Reason, str]


_BY_STATE = {
    EndpointState.READY: reasons.ENDPOINT_READY,
    EndpointState.UNREACHABLE: reasons.ENDPOINT_UNREACHABLE,
    EndpointState.UNAUTHORIZED: reasons.ENDPOINT_UNAUTHORIZED,
    EndpointState.SECRET_MISSING: reasons.SECRET_MISSING,
    EndpointState.MODEL_MISSING: reasons.ENDPOINT_MODEL_MISSING,
}


@dataclass(frozen=True, slots=True)
class Situation:
    """All that a report is made of. `endpoints` are the AR servers that are not ours, by hash; None: no gateway spoke of it yet."""

    wanted: Wanted
    rollout: RolloutState
    revisions: Mapping[str, RevisionStatus]
    replicas: int
    observation: Observation
    lagging: tuple[str, ...]
    not_acted_on: tuple[str, ...]
    sized: Sized
    endpoints: Mapping[str, EndpointStatus | None]


def findings(situation: Situation) -> tuple[Finding, ...]:
    """One finding for each condition type."""
    return (
        _ready(situation),
        _progressing(situation),
        _fallback_available(situation),
        (situation.sized.reason, situation.sized.message),
        _metrics_available(situation),
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
    routed = _routed(situation)
    serving = [_named(hash_, situation) for hash_ in routed if _is_ready(hash_, situation)]
    if serving:
        return reasons.SERVING, f"Requests are answered by {', '.join(serving)}."
    named = ", ".join(_named(hash_, situation) for hash_ in routed)
    return reasons.NO_READY_POD, f"No routed revision is ready: {named}." if named else "No revision was ready yet."


def _progressing(situation: Situation) -> Finding:
    return _obstacle(situation) or _on_the_way(situation)


def _obstacle(situation: Situation) -> Finding | None:
    """What keeps spec from having its way and does not go away by waiting."""
    rollout, rejected = situation.rollout, situation.observation.rejected
    if rejected:
        return reasons.CHILD_REJECTED, rejected
    stuck = list(_stuck(situation))
    if stuck:
        return reasons.PODS_NOT_STARTING, " ".join(_explained(hash_, situation) for hash_ in stuck)
    if rollout.phase is RolloutPhase.ROLLBACK_BLOCKED:
        return reasons.ROLLBACK_BLOCKED, rollout.message
    held = situation.sized.held
    if set(held.values()) - {reasons.INSPECTING}:
        return reasons.HELD_BY_SIZING, f"{_listed(held)}: no pods are made, see the condition Sized."
    if _waits_for_stable(situation):
        diffusion, ar = situation.wanted.diffusion.hash, situation.wanted.ar_hash
        return reasons.WAITING_FOR_STABLE, (
            f"{_named(diffusion, situation)} waits for AR to serve the rest. {_explained(ar, situation)}"
        )
    return None


def _on_the_way(situation: Situation) -> Finding:
    rollout, held, coming = situation.rollout, situation.sized.held, _coming(situation)
    down = [hash_ for hash_ in _routed(situation) if not _is_ready(hash_, situation)]
    if down:
        return reasons.ARM_DOWN, " ".join(_explained(hash_, situation) for hash_ in down)
    if coming:
        starting = [hash_ for hash_ in coming if hash_ not in _routed(situation)]
        reason = reasons.REVISION_STARTING if starting else reasons.PODS_NOT_READY
        return reason, " ".join(_explained(hash_, situation) for hash_ in starting or coming)
    if held:
        return (
            reasons.INSPECTING_FIRST,
            f"{_listed(held)}: pods are made once it is known to fit, see the condition Sized.",
        )
    ar = situation.wanted.ar_hash
    if situation.wanted.endpoint and rollout.fallback_revision != ar:
        return reasons.WAITING_FOR_ENDPOINT, _explained(ar, situation)
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
    unjudged = " There is no gate on perplexity: the AR server cannot score." if _cannot_score(situation) else ""
    return reasons.METRICS_READ, f"Every gate has data, or waits for more of it.{unjudged}"


def _fallback_available(situation: Situation) -> Finding:
    serving = situation.rollout.fallback_revision
    ar = serving or situation.wanted.ar_hash
    if ar in situation.endpoints:
        return _endpoint_available(ar, situation)
    if serving is None:
        return reasons.FALLBACK_STARTING, _explained(ar, situation)
    if _is_ready(serving, situation):
        return reasons.FALLBACK_READY, f"{_named(serving, situation)} can take over."
    return reasons.FALLBACK_NOT_READY, _explained(serving, situation)


def _endpoint_available(hash_: str, situation: Situation) -> Finding:
    status = situation.endpoints[hash_]
    if status is None:
        return reasons.ENDPOINT_UNKNOWN, f"No gateway has asked endpoint {hash_} yet."
    if not status.is_ready:
        return _BY_STATE[status.state], _explained(hash_, situation)
    if cannot_score(status):
        return reasons.ENDPOINT_CANNOT_SCORE, (
            f"Endpoint {hash_} can take over. It gives no log-probabilities of prompts: there are no pairs and no gate on "
            "perplexity."
        )
    scored = "" if status.scores is None else f" It scores texts after {' and '.join(status.scores)}."
    return reasons.ENDPOINT_READY, f"Endpoint {hash_} can take over.{scored}"


def _cannot_score(situation: Situation) -> bool:
    ar = situation.rollout.fallback_revision or situation.wanted.ar_hash
    return cannot_score(situation.endpoints.get(ar))


def _spec_applied(situation: Situation) -> Finding:
    if situation.not_acted_on:
        return reasons.NOT_ACTED_ON_YET, f"Stored, not acted on yet: {', '.join(situation.not_acted_on)}."
    return reasons.APPLIED, "Every field that is set has an effect."


def _parts(situation: Situation) -> set[str]:
    """Hashes of all revisions that have a part to play now or soon."""
    wanted = situation.wanted
    return {wanted.diffusion.hash, wanted.ar_hash, *_routed(situation)}


def _routed(situation: Situation) -> list[str]:
    """Hashes of what requests are sent to, by share or as the fallback."""
    rollout = situation.rollout
    hashes = (rollout.stable_revision, rollout.canary_revision, rollout.fallback_revision)
    return [hash_ for hash_ in hashes if hash_]


def _coming(situation: Situation) -> list[str]:
    """Hashes of wanted revisions that do not have all their pods yet, and may have them."""
    wanted = [revision.hash for revision in (situation.wanted.diffusion, situation.wanted.ar) if revision]
    return [
        hash_
        for hash_ in wanted
        if hash_ not in situation.sized.held and situation.revisions[hash_].ready_pods < situation.replicas
    ]


def _listed(held: Collection[str]) -> str:
    return f"Revision{'s' if len(held) > 1 else ''} {', '.join(sorted(held))}"


def _stuck(situation: Situation) -> list[str]:
    """Revisions whose pods do not start. Also one that serves: pods that should replace its pods may be stuck as well."""
    return sorted(hash_ for hash_ in _parts(situation) if situation.observation.pods.get(hash_, NO_PODS).stuck)


def _is_ready(hash_: str, situation: Situation) -> bool:
    if hash_ in situation.endpoints:
        status = situation.endpoints[hash_]
        return status is not None and status.is_ready
    return situation.revisions[hash_].ready_pods > 0


def _named(hash_: str, situation: Situation) -> str:
    if hash_ in situation.endpoints:
        return f"endpoint {hash_}"
    revision = situation.revisions[hash_]
    return f"{revision.template.kind} revision {hash_} ({revision.ready_pods} ready)"


def _explained(hash_: str, situation: Situation) -> str:
    if hash_ in situation.endpoints:
        status = situation.endpoints[hash_]
        found = f"{status.state}: {status.message}" if status else "no gateway has asked it yet"
        return f"endpoint {hash_} is not ready: {found.rstrip('.')}."
    revision = situation.revisions[hash_]
    waiting = situation.observation.pods.get(hash_, NO_PODS).waiting_for
    numbers = f"{revision.template.kind} revision {hash_} has {revision.ready_pods} of {situation.replicas} pods ready"
    return f"{numbers}: {waiting}." if waiting else f"{numbers}."
