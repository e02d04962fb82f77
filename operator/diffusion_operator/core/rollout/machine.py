"""One pass: look, act at most once, say where it stands.

What comes first wins: a canary that spec no longer asks for goes, then a revision that failed, then what a person asked
for, then the next step of one that passed, then the start of a new one.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from datetime import datetime

from diffusion_operator.api.rollout import Failure, RolloutState, Watched
from diffusion_operator.core.gates import Verdict
from diffusion_operator.core.verdict import Outcome

from . import acts, climbing, steering, telling
from .acts import Act, RolloutEvent
from .look import Look, look
from .observation import Observation, Run
from .policy import Intent, Pace
from .situation import Situation, hold_reason, is_overdue

_SOON_SECONDS = 1.0


@dataclass(frozen=True, slots=True)
class Decision:
    """What to write and when to look again.

    `status` is the state before, itself, when nothing is worth a write. `is_settling`: a weight moved or a step begins, so
    metrics are due soon. `awaits_gateways`: a step cannot begin before they have the routes in force, which nothing but the
    next pass will tell. `runs` and `starts` go into the next observation of this
    process. `verdicts` are what this look found, by revision, for logs and metrics. `requeue_after` is in seconds; None
    when there is nothing to wait for but changes.
    """

    status: RolloutState
    requeue_after: float | None
    events: tuple[RolloutEvent, ...]
    runs: Mapping[str, Run]
    verdicts: Mapping[str, tuple[Verdict, ...]]
    starts: Mapping[str, datetime]
    is_settling: bool = False
    awaits_gateways: bool = False


def step(
    intent: Intent, before: RolloutState, observation: Observation, *, now: datetime, pace: Pace | None = None
) -> Decision:
    """Decide once. The same input gives the same decision, and the same time again changes nothing more."""
    pace = pace or Pace.of(intent.policy)
    situation = _look(intent, before, observation, now=now, pace=pace)
    situation, asked = steering.take(situation)
    act = _act(situation, asked)
    events = [*asked.events, *(act.events if act else ())]
    if intent.command and not asked.is_done_by(act):
        events.append(steering.overtaken(intent.command))
    # A rollback that must wait moves no weight: what the look saw is still so.
    moved = act is not None and act.moves
    told = telling.tell(replace(situation, state=act.state) if act else situation, before=before, moved=moved)
    state = told.state
    looks = [one for one in (situation.stable, situation.canary) if one]
    is_worth_writing = (
        act is not None or any(one.is_break for one in looks) or telling.differs(before, state, now=now, pace=pace)
    )
    is_settling = moved or any(one.is_new for one in looks)
    return Decision(
        status=state if is_worth_writing else before,
        requeue_after=_requeue(state, intent, soon=is_settling, pace=pace),
        events=(*events, *told.events),
        runs={one.watched.revision: one.run for one in looks if one.run},
        verdicts={one.watched.revision: one.verdicts for one in looks},
        # After an act a revision's step may be another one.
        starts={one.watched.revision: one.starts_at for one in looks if one.starts_at and not moved},
        is_settling=is_settling,
        awaits_gateways=moved or any(one.is_new and one.starts_at is None for one in looks),
    )


def _look(intent: Intent, state: RolloutState, observation: Observation, *, now: datetime, pace: Pace) -> Situation:
    ar = {intent.ar} if intent.ar else set()
    stable = canary = None
    if state.stable:
        arms = {state.stable.revision} | ar
        stable = look(state.stable, intent, observation, arms=arms, now=now, pace=pace)
    if state.canary:
        arms = {state.canary.revision} | ar | ({state.stable.revision} if state.stable else set())
        canary = look(state.canary, intent, observation, arms=arms, now=now, pace=pace)
    seen = state.model_copy(update={"stable": stable and stable.watched, "canary": canary and canary.watched})
    if seen.failure and seen.failure.revision != intent.revision:
        seen = seen.model_copy(update={"failure": None})  # spec asks for another one: this one may be asked for anew
    return Situation(intent, seen, observation, now, stable, canary)


def _act(situation: Situation, asked: steering.Asked) -> Act | None:
    state, now = situation.state, situation.now
    can_take_over = situation.ready(situation.rest) > 0
    if state.canary and state.canary.revision != situation.intent.revision and can_take_over:
        return acts.withdraw(state, state.canary, now=now)
    for failure in _failures(situation, asked):
        is_canary = state.canary is not None and state.canary.revision == failure.revision
        takes_over = situation.rest if is_canary else situation.intent.ar
        if situation.ready(takes_over) > 0:
            return acts.roll_back(state, failure, now=now)
    due = next(_failures(situation, asked), None)
    if due:
        # Nobody is there to take over: what serves goes on, however bad, since nothing would be worse.
        return None if state.due == due else telling.block(state, due)
    return asked.act or climbing.climb(situation)


def _failures(situation: Situation, asked: steering.Asked) -> Iterator[Failure]:
    """Why a revision must lose its requests now. What was due stays due."""
    state = situation.state
    serving = {watched.revision for watched in (state.canary, state.stable) if watched}
    if state.due and state.due.revision in serving:
        yield state.due
    if asked.failure:
        yield asked.failure
    if state.canary and situation.canary:
        yield from _failure(state.canary, situation.canary, situation.now)
        if situation.intent.policy.rolls_back_when_overdue and is_overdue(situation) and not situation.is_paused:
            message = (
                f"held for longer than maxHold without a verdict; onInconclusive is Rollback. {hold_reason(situation)}"
            )
            yield Failure(revision=state.canary.revision, reason="Overdue", message=message[:1024], at=situation.now)
    if state.stable and situation.stable:
        yield from _failure(state.stable, situation.stable, situation.now)


def _failure(watched: Watched, look: Look, now: datetime) -> Iterator[Failure]:
    for verdict in look.of(Outcome.FAIL):
        yield Failure(revision=watched.revision, reason=verdict.gate, message=verdict.message, at=now)


def _requeue(state: RolloutState, intent: Intent, *, soon: bool, pace: Pace) -> float | None:
    """Soon after an act, while gateways follow, and when a step begins: its time runs from the first reading on.

    A step is looked at when its time is over, unless its time stands still: that may last for days.
    """
    if not state.stable and not state.canary:
        return None
    if soon:
        return _SOON_SECONDS
    counts = state.canary is not None and state.canary.is_observing
    left = intent.policy.step_seconds - state.canary.observed_seconds if state.canary and counts else 0.0
    return max(_SOON_SECONDS, min(pace.look_seconds, left)) if left > 0 else pace.look_seconds
