"""Observed time: what counts is time in which metrics were readable, arms healthy, and somebody looked.

An unbroken run of good looks is kept in memory by whoever looks. State says up to when time is accounted for; what a run
has beyond that is added. So a look needs no write, a write that was lost or repeated counts nothing twice, and a process
that starts anew counts from its first look.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta

from diffusion_operator.api.rollout import RolloutState, Watched

from .observation import Run
from .policy import Pace


@dataclass(frozen=True, slots=True)
class Accounted:
    """A revision with its time up to now. `is_break`: a run is over, so what it counted must be written down."""

    watched: Watched
    run: Run | None
    is_break: bool


def account(watched: Watched, run: Run | None, *, is_observing: bool, now: datetime, pace: Pace) -> Accounted:
    """Add the observed time since the last account. Clocks may jump either way: such a time counts nothing."""
    if watched.started_at is None or watched.accounted_at is None:
        return Accounted(watched, run=None, is_break=False)
    goes_on = (
        run is not None
        and not run.is_over
        and timedelta() <= now - run.until <= timedelta(seconds=pace.longest_gap_seconds)
    )
    counted, next_run, is_break = run, Run(now, now) if is_observing else None, run is not None
    if run and goes_on and is_observing:
        counted = next_run = Run(run.since, now)
        is_break = False
    # The process before may have had a clock that was ahead.
    until = min(counted.until, now) if counted else now
    new = max(0.0, (until - max(counted.since, watched.accounted_at)).total_seconds()) if counted else 0.0
    is_early = watched.accounted_at > now or watched.started_at > now
    after = watched.model_copy(
        update={
            "observed_seconds": watched.observed_seconds + new,
            "accounted_at": now,
            "started_at": min(watched.started_at, now),
            "is_observing": is_observing,
        }
    )
    return Accounted(after, run=next_run, is_break=is_break or is_early)


def resumed_runs(state: RolloutState, *, alive_since: datetime, alive_until: datetime) -> Mapping[str, Run]:
    """Runs of a process that has ended, for the one that takes over.

    `alive_since` and `alive_until` are from a record that the earlier process renewed as long as it looked, such as a
    Lease. A run that broke was written down, so what state says of it held until the end. While something climbs a run
    ends with its process, and its time is written at the next look: the next record begins with the next process. After
    promotion nothing waits for that time, so a short absence is bridged and costs no write.
    """
    return {
        watched.revision: Run(watched.accounted_at, alive_until, is_over=state.canary is not None)
        for watched in (state.stable, state.canary)
        if watched
        and watched.is_observing
        and watched.accounted_at
        and alive_since <= watched.accounted_at <= alive_until
    }
