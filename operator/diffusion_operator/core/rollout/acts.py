"""The changes of weight that there are. Each takes a state to the next, and says so in an event and in the history."""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime

from diffusion_operator.api.rollout import (
    LONGEST_HISTORY,
    Change,
    EventCounts,
    Failure,
    PairSums,
    RolloutState,
    Watched,
)

from .policy import Intent

STARTED = "Started"


@dataclass(frozen=True, slots=True)
class RolloutEvent:
    """Something that happened, for `kubectl describe`."""

    reason: str
    message: str
    is_warning: bool = False


@dataclass(frozen=True, slots=True)
class Act:
    """What a pass did: at most one of these in a pass. `moves` is false for one that leaves all weights where they are."""

    state: RolloutState
    events: tuple[RolloutEvent, ...]
    moves: bool = True


def start(state: RolloutState, intent: Intent, *, now: datetime) -> Act:
    """The first weight of a revision."""
    percent = intent.policy.initial_percent
    changed = state.model_copy(
        update={
            "canary": Watched(revision=intent.revision, ar=intent.ar),
            "canary_percent": percent,
            "failure": None,
            "gates": [],
            "history": _history(state, intent.revision, percent, STARTED, now=now),
        }
    )
    return Act(changed, (RolloutEvent("RolloutStarted", f"{intent.revision} serves {percent}% of the requests."),))


def climb(state: RolloutState, canary: Watched, intent: Intent, *, reason: str, why: str, now: datetime) -> Act:
    """One step up."""
    percent = intent.policy.next_percent(state.canary_percent)
    changed = state.model_copy(
        update={
            "canary": _next_step(canary),
            "canary_percent": percent,
            "held_since": None,
            "is_overdue": False,
            "history": _history(state, canary.revision, percent, reason, now=now),
        }
    )
    event = RolloutEvent("StepUp", f"{canary.revision} goes from {state.canary_percent}% to {percent}%: {why}")
    return Act(changed, (event,))


def promote(state: RolloutState, canary: Watched, *, reason: str, why: str, now: datetime) -> Act:
    """The canary becomes stable. What it showed on its way stays behind: from here on each period counts for itself."""
    stable = _from_the_start(canary, ar=canary.ar)
    changed = state.model_copy(
        update={
            "stable": stable,
            "canary": None,
            "canary_percent": 0,
            "failure": None,
            "held_since": None,
            "is_overdue": False,
            "history": _history(state, canary.revision, 100, reason, now=now),
        }
    )
    return Act(changed, (RolloutEvent("Promoted", f"{canary.revision} is the stable revision now: {why}"),))


def roll_back(state: RolloutState, failure: Failure, *, now: datetime) -> Act:
    """All requests away from a revision, and none to it until spec asks for another or a person for a retry.

    Where the stable revision follows one that failed above it, that one is what must stay away: spec still asks for it.
    """
    is_stable = state.stable is not None and state.stable.revision == failure.revision
    update: dict[str, object] = {"stable": None} if is_stable else {"canary": None, "canary_percent": 0}
    changed = state.model_copy(
        update=update
        | {
            "failure": state.failure if is_stable and state.failure else failure,
            "due": _due_of_others(state, failure.revision),
            "held_since": None,
            "is_overdue": False,
            "history": _history(state, failure.revision, 0, failure.reason, now=now),
        }
    )
    to = "AR" if is_stable or state.stable is None else state.stable.revision
    event = RolloutEvent(
        "RolledBack", f"{failure.revision} lost its requests to {to}: {failure.message}", is_warning=True
    )
    return Act(changed, (event,))


def withdraw(state: RolloutState, canary: Watched, *, now: datetime) -> Act:
    """The weight of a canary that spec no longer asks for goes to 0, before anything else starts."""
    changed = state.model_copy(
        update={
            "canary": None,
            "canary_percent": 0,
            "due": _due_of_others(state, canary.revision),
            "held_since": None,
            "is_overdue": False,
            "gates": [],
            "history": _history(state, canary.revision, 0, "Withdrawn", now=now),
        }
    )
    return Act(
        changed, (RolloutEvent("Withdrawn", f"{canary.revision} serves no more: spec asks for another revision."),)
    )


def last_starts(state: RolloutState) -> Mapping[str, datetime]:
    """When revisions got their first weight last, as far back as the history goes."""
    return {change.revision: change.at for change in state.history if change.reason == STARTED}


def compared_with(watched: Watched, ar: str | None) -> Watched:
    """Against another AR model nothing that was measured before counts."""
    return watched if watched.ar == ar else _from_the_start(watched, ar=ar)


def next_period(watched: Watched) -> Watched:
    """After promotion: the next stretch of time that is judged for itself."""
    return _from_the_start(watched, ar=watched.ar)


def add_earlier(watched: Watched, *, pairs: PairSums, repetition: EventCounts) -> Watched:
    """A canary takes its quality along to the next step."""
    earlier, answers = watched.earlier_pairs, watched.earlier_repetition
    return watched.model_copy(
        update={
            "earlier_pairs": PairSums(
                count=earlier.count + pairs.count,
                total=earlier.total + pairs.total,
                total_squares=earlier.total_squares + pairs.total_squares,
            ),
            "earlier_repetition": EventCounts(
                count=answers.count + repetition.count, events=answers.events + repetition.events
            ),
        }
    )


def _due_of_others(state: RolloutState, gone: str) -> Failure | None:
    """The rollback that still waits when a revision has gone: its own is done, that of the other one is not."""
    return state.due if state.due and state.due.revision != gone else None


def _next_step(watched: Watched) -> Watched:
    return watched.model_copy(
        update={
            "step": watched.step + 1,
            "started_at": None,
            "accounted_at": None,
            "observed_seconds": 0.0,
            "is_observing": False,
        }
    )


def _from_the_start(watched: Watched, *, ar: str | None) -> Watched:
    return _next_step(watched).model_copy(
        update={
            "ar": ar,
            "run": watched.run + 1,
            "earlier_pairs": PairSums(),
            "earlier_repetition": EventCounts(),
        }
    )


def _history(state: RolloutState, revision: str, percent: int, reason: str, *, now: datetime) -> list[Change]:
    change = Change(at=now, revision=revision, percent=percent, reason=reason)
    return [*state.history, change][-LONGEST_HISTORY:]
