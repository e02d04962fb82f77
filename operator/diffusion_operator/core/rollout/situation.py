"""All that a pass decides from, and the questions that it asks of it."""

from dataclasses import dataclass
from datetime import datetime, timedelta

from diffusion_operator.api.rollout import RolloutState
from diffusion_operator.core.verdict import Outcome

from .look import Look
from .observation import Observation
from .policy import Intent


@dataclass(frozen=True, slots=True)
class Situation:
    """What is asked for and what was seen. `state` has the revisions of `stable` and `canary` as they are now."""

    intent: Intent
    state: RolloutState
    observation: Observation
    now: datetime
    stable: Look | None
    canary: Look | None

    def ready(self, revision: str | None) -> int:
        """Ready pods of a revision."""
        return self.observation.ready.get(revision, 0) if revision else 0

    @property
    def is_paused(self) -> bool:
        """By spec or by a person."""
        return self.intent.policy.paused or self.state.is_paused

    @property
    def rest(self) -> str | None:
        """Who serves what the canary does not: the stable revision or AR."""
        return self.state.stable.revision if self.state.stable else self.intent.ar

    @property
    def goes_straight(self) -> bool:
        """Whether the wanted revision takes all requests at once: nobody else could, or spec says so."""
        return self.rest is None or self.intent.policy.initial_percent == 100


def waits_for(situation: Situation) -> str | None:
    """Why the wanted revision gets no first weight yet; None when it may."""
    intent, ready = situation.intent, situation.ready(situation.intent.revision)
    rest = situation.rest
    if situation.is_paused:
        return "paused: nothing starts"
    if not situation.observation.in_force:
        return "waits for gateways that do not have the routes in force yet"
    if ready < 1:
        return f"waits for a ready pod of {intent.revision}"
    if rest and not situation.goes_straight and not situation.ready(rest):
        return f"waits for a ready pod of {rest}, which serves the rest"
    if rest and situation.goes_straight and ready < intent.replicas:
        return f"waits for {intent.replicas} ready pods of {intent.revision}, which has {ready}"
    return None


def hold_reason(situation: Situation) -> str | None:
    """Why the canary cannot go on by itself; None while it is only a matter of time."""
    look, intent = situation.canary, situation.intent
    if look is None or look.is_new or not look.is_measured or look.watched.revision != intent.revision:
        return None
    if look.down:
        return f"no ready pod of {', '.join(look.down)}: the time does not count"
    if not situation.observation.in_force:
        return "gateways do not have the routes in force: the time does not count"
    for verdict in (*look.of(Outcome.ERROR), *look.of(Outcome.FAIL)):
        return f"{verdict.gate}: {verdict.message}"
    if look.watched.observed_seconds < intent.policy.step_seconds:
        return None
    for verdict in look.of(Outcome.INCONCLUSIVE):
        return f"{verdict.gate}: {verdict.message}"
    ready = situation.ready(intent.revision)
    return f"{ready} of {intent.replicas} pods of {intent.revision} are ready" if ready < intent.replicas else None


def is_overdue(situation: Situation) -> bool:
    """Whether the canary is held for longer than maxHold, and still is."""
    since, longest = situation.state.held_since, situation.intent.policy.max_hold_seconds
    return (
        since is not None and hold_reason(situation) is not None and situation.now - since >= timedelta(seconds=longest)
    )
