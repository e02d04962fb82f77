"""One rollout from its first weight to its end."""

from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from enum import StrEnum
from random import Random

from diffusion_operator.api.units import seconds
from diffusion_operator.core.gates import GateName
from diffusion_operator.core.rollout import (
    Intent,
    Observation,
    Pace,
    Policy,
    RolloutPhase,
    RolloutState,
    step,
    windows,
)
from diffusion_operator.core.rollout.policy import FIRST_TOKEN

from .scenario import Truth
from .traffic import Traffic

_REVISION, _AR = "revision", "ar"
_START = datetime(2026, 1, 1, tzinfo=UTC)
_DAY = 86_400.0


class Result(StrEnum):
    """How a rollout ended. `HELD`: it had not, when the time was over."""

    PROMOTED = "promoted"
    ROLLED_BACK = "rolled_back"
    HELD = "held"


@dataclass(frozen=True, slots=True)
class TimelineEntry:
    """Something that happened `days` after the start, and the revision's weight after it."""

    days: float
    percent: int
    reason: str
    message: str


@dataclass(frozen=True, slots=True)
class Played:
    """A rollout that was played. `percent` is the weight at the end; `reason` is why it was rolled back, or empty."""

    result: Result
    days: float
    percent: int
    reason: str
    timeline: tuple[TimelineEntry, ...]


def play(policy: Policy, truth: Truth, *, look_seconds: float, most_days: float, seed: str) -> Played:
    """Play a first rollout: AR serves, and the revision climbs until it is promoted, rolled back, or time is over.

    Pods are ready and gateways follow at once. Looks are further apart than in a cluster; the guard's windows are at least
    that long. Like seeds give like rollouts.
    """
    intent = Intent(
        revision=_REVISION, ar=_AR, policy=replace(policy, guard_seconds=max(policy.guard_seconds, look_seconds))
    )
    pace = Pace(look_seconds, longest_gap_seconds=2 * look_seconds, checkpoint_seconds=look_seconds)
    limit = policy.gates[GateName.TIME_TO_FIRST_TOKEN].highest if policy.gates else seconds(FIRST_TOKEN)
    traffic = Traffic(truth, first_token_limit=limit, random=Random(seed))  # noqa: S311 a simulation, no secret
    state, seen, timeline, now = RolloutState(), Observation(ready={_REVISION: 1, _AR: 1}), [], _START
    end = _START + timedelta(days=most_days)
    while now < end and not _is_over(state):
        asked = windows(state, intent.policy, starts=seen.starts, now=now)
        readings = {window.revision: traffic.read(window) for window in asked}
        decision = step(intent, state, replace(seen, readings=readings), now=now, pace=pace)
        percent = decision.status.canary_percent
        weight = _weight(decision.status)
        timeline += [
            TimelineEntry((now - _START).total_seconds() / _DAY, weight, event.reason, event.message)
            for event in decision.events
        ]
        if percent != state.canary_percent:
            traffic.forget()
        state, seen = decision.status, replace(seen, runs=decision.runs, starts=decision.starts)
        until = now + timedelta(seconds=decision.requeue_after or look_seconds)
        traffic.flow(now, until, percent=percent)
        now = until
    return _played(state, tuple(timeline), days=(now - _START).total_seconds() / _DAY)


def _is_over(state: RolloutState) -> bool:
    return state.phase in {RolloutPhase.PROMOTED, RolloutPhase.ROLLED_BACK}


def _weight(state: RolloutState) -> int:
    """Of the revision, which is no canary any more once it is promoted."""
    return 100 if state.phase is RolloutPhase.PROMOTED else state.canary_percent


def _played(state: RolloutState, timeline: tuple[TimelineEntry, ...], *, days: float) -> Played:
    if _is_over(state):
        days = timeline[-1].days
    if state.phase is RolloutPhase.PROMOTED:
        return Played(Result.PROMOTED, days, _weight(state), "", timeline)
    if state.phase is RolloutPhase.ROLLED_BACK and state.failure:
        before = [change.percent for change in state.history[:-1]]
        return Played(Result.ROLLED_BACK, days, before[-1], state.failure.reason, timeline)
    return Played(Result.HELD, days, _weight(state), "", timeline)
