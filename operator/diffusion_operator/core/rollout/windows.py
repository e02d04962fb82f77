"""Which time spans to read metrics for."""

from dataclasses import dataclass
from datetime import datetime, timedelta

from diffusion_operator.api.rollout import RolloutState, Watched

from .policy import Policy


@dataclass(frozen=True, slots=True)
class Window:
    """For one revision: the step since `since`, and the guard's minutes since `guard_since`.

    The guard's windows begin at multiples of the policy's guard time, and each lasts for two: so there are countably
    many (`guard_index`), and there is always one that is between one and two guard times old.
    """

    revision: str
    since: datetime
    guard_since: datetime
    guard_index: int


def windows(state: RolloutState, policy: Policy, *, now: datetime) -> tuple[Window, ...]:
    """A window for each revision that is observed."""
    return tuple(
        _window(watched, watched.started_at, policy, now=now)
        for watched in (state.stable, state.canary)
        if watched and watched.started_at
    )


def _window(watched: Watched, since: datetime, policy: Policy, *, now: datetime) -> Window:
    since = min(since, now)
    index = max(0, int((now - since).total_seconds() // policy.guard_seconds) - 1)
    return Window(
        revision=watched.revision,
        since=since,
        guard_since=since + timedelta(seconds=index * policy.guard_seconds),
        guard_index=index,
    )
