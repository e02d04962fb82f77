"""What the state says of itself: phase, message, what the gates said; and whether that is worth a write."""

from dataclasses import dataclass
from datetime import datetime, timedelta

from diffusion_operator.api.rollout import Failure, GateStatus, RolloutPhase, RolloutState, Watched

from . import climbing
from .acts import Act, RolloutEvent
from .look import Look
from .policy import Pace
from .situation import Situation, hold_reason, is_overdue, waits_for

_LONGEST_MESSAGE = 1024


@dataclass(frozen=True, slots=True)
class Told:
    """A state that tells where it stands, and what is news in it."""

    state: RolloutState
    events: tuple[RolloutEvent, ...]


def tell(situation: Situation, *, before: RolloutState, moved: bool) -> Told:
    """Phase, message and gates after a pass. When a weight moved the look is of the past: the next pass tells the rest."""
    state = situation.state if moved or situation.state.due else climbing.renewed(situation)
    if moved:
        situation = _without_looks(situation)
    held = None if situation.is_paused or state.due else hold_reason(situation)
    held_since = None
    if held:
        held_since = min(state.held_since or situation.now, situation.now)
    overdue = held is not None and is_overdue(situation)
    phase, message = _phase(situation, held)
    if not moved and _is_told_already(situation, before, phase):
        phase, message, held_since, overdue = before.phase, before.message, before.held_since, before.is_overdue
    look = situation.canary or (None if state.canary else situation.stable)
    state = state.model_copy(
        update={
            "phase": phase,
            "message": message[:_LONGEST_MESSAGE],
            "held_since": held_since,
            "is_overdue": overdue,
            "gates": state.gates if look is None or look.is_new or not look.is_measured else _gates(look),
        }
    )
    return Told(state, _news(before, state))


def _is_told_already(situation: Situation, before: RolloutState, phase: RolloutPhase) -> bool:
    """Whether what the last look said still stands, since nothing was measured anew."""
    look = situation.canary
    goes_on = {RolloutPhase.OBSERVING, RolloutPhase.HELD}
    return look is not None and not look.is_measured and phase is RolloutPhase.OBSERVING and before.phase in goes_on


def block(state: RolloutState, due: Failure) -> Act:
    """A rollback that must wait."""
    event = RolloutEvent(
        "FallbackUnavailable",
        f"{due.revision} should lose its requests, but what would take them over has no ready pod: {due.message}",
        is_warning=True,
    )
    return Act(state.model_copy(update={"due": due}), (event,), moves=False)


def differs(before: RolloutState, after: RolloutState, *, now: datetime, pace: Pace) -> bool:
    """Whether the state is worth a write: more than numbers changed, or they are old, or one doubled."""
    if _lasting(before) != _lasting(after):
        return True
    # After promotion no weight waits for time: what a restart would lose of it is no matter.
    written = before.canary.accounted_at if before.canary else None
    if written and now - written >= timedelta(seconds=pace.checkpoint_seconds):
        return True
    return any(
        new.samples >= 2 * old.samples and new.samples > 0
        for old, new in zip(before.gates, after.gates, strict=True)
        if new.samples != old.samples
    )


def _phase(situation: Situation, held: str | None) -> tuple[RolloutPhase, str]:
    state, intent, canary = situation.state, situation.intent, situation.state.canary
    if state.due:
        return (
            RolloutPhase.ROLLBACK_BLOCKED,
            f"Nothing ready could take over from {state.due.revision}: {state.due.message}",
        )
    if canary and canary.revision != intent.revision:
        return (
            RolloutPhase.ROLLBACK_BLOCKED,
            f"Spec asks for {intent.revision}, but {situation.rest}, which would take over from {canary.revision}, "
            "has no ready pod.",
        )
    if canary:
        return _climbing(situation, canary, held)
    if state.stable and state.stable.revision == intent.revision:
        return RolloutPhase.PROMOTED, f"{intent.revision} is the stable revision."
    if state.failure and state.failure.revision == intent.revision:
        return (
            RolloutPhase.ROLLED_BACK,
            f"{intent.revision} was rolled back ({state.failure.reason}): {state.failure.message} "
            "It stays away until spec asks for another revision, or somebody for a retry.",
        )
    phase = RolloutPhase.PAUSED if situation.is_paused else RolloutPhase.WAITING
    return phase, f"{intent.revision} {waits_for(situation) or 'starts'}."


def _climbing(situation: Situation, canary: Watched, held: str | None) -> tuple[RolloutPhase, str]:
    where = f"{canary.revision} serves {situation.state.canary_percent}%"
    if situation.is_paused:
        return RolloutPhase.PAUSED, f"{where} and stays there: paused."
    if held:
        return RolloutPhase.HELD, f"{where} and stays there: {held}"
    if canary.started_at is None:
        return (
            RolloutPhase.OBSERVING,
            f"{where}; its time begins when gateways have that in force and metrics were read.",
        )
    left = max(0.0, situation.intent.policy.step_seconds - canary.observed_seconds)
    due = situation.now + timedelta(seconds=left)
    return (
        RolloutPhase.OBSERVING,
        f"{where}; the next step is due at {due:%Y-%m-%d %H:%M:%S} UTC, if all gates pass and no time is lost.",
    )


def _without_looks(situation: Situation) -> Situation:
    return Situation(situation.intent, situation.state, situation.observation, situation.now, stable=None, canary=None)


def _gates(look: Look) -> list[GateStatus]:
    return [
        GateStatus(
            gate=verdict.gate,
            verdict=verdict.outcome,
            message=verdict.message[:_LONGEST_MESSAGE],
            value=verdict.value,
            limit=verdict.limit,
            samples=verdict.samples,
        )
        for verdict in look.verdicts
    ]


def _news(before: RolloutState, after: RolloutState) -> tuple[RolloutEvent, ...]:
    events = []
    if after.phase is RolloutPhase.HELD and before.phase is not RolloutPhase.HELD:
        events.append(RolloutEvent("RolloutHeld", after.message, is_warning=True))
    if after.is_overdue and not before.is_overdue:
        events.append(RolloutEvent("HeldTooLong", f"Held for longer than maxHold. {after.message}", is_warning=True))
    if before.phase is RolloutPhase.HELD and after.phase is RolloutPhase.OBSERVING:
        events.append(RolloutEvent("RolloutGoesOn", after.message))
    return tuple(events)


def _lasting(state: RolloutState) -> tuple[object, ...]:
    """All but numbers that drift with each look."""
    drifts = state.phase in {RolloutPhase.OBSERVING, RolloutPhase.HELD}
    return (
        state.phase,
        None if drifts else state.message,
        state.canary_percent,
        state.held_since,
        state.is_overdue,
        state.failure,
        state.due,
        state.is_paused,
        state.handled_command,
        len(state.history),
        state.history[-1:],
        [(gate.gate, gate.verdict) for gate in state.gates],
        *(_lasting_of(watched) for watched in (state.stable, state.canary)),
    )


def _lasting_of(watched: Watched | None) -> tuple[object, ...] | None:
    if watched is None:
        return None
    return (watched.revision, watched.ar, watched.run, watched.step, watched.started_at, watched.is_observing)
