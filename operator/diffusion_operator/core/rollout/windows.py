"""Which time spans to read metrics for."""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta

from diffusion_operator.api.rollout import RolloutState

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


def windows(
    state: RolloutState, policy: Policy, *, starts: Mapping[str, datetime], now: datetime
) -> tuple[Window, ...]:
    """A window for each revision that is observed. `starts` is what the last step returned: begins that are not written yet."""
    begins = begins_of(state, starts)
    return tuple(_window(revision, since, policy, now=now) for revision, since in begins.items())


def begins_of(state: RolloutState, starts: Mapping[str, datetime]) -> Mapping[str, datetime]:
    """When the steps of all observed revisions began."""
    watched = [one for one in (state.stable, state.canary) if one]
    begins = {one.revision: one.started_at or starts.get(one.revision) for one in watched}
    return {revision: since for revision, since in begins.items() if since}


def _window(revision: str, since: datetime, policy: Policy, *, now: datetime) -> Window:
    since = min(since, now)
    index = max(0, int((now - since).total_seconds() // policy.guard_seconds) - 1)
    return Window(
        revision=revision,
        since=since,
        guard_since=since + timedelta(seconds=index * policy.guard_seconds),
        guard_index=index,
    )
