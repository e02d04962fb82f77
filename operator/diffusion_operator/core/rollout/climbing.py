"""Upwards: the first weight, the next one, promotion. And the end of a period after promotion."""

from diffusion_operator.api.rollout import RolloutState, Watched
from diffusion_operator.core.gates import GateName
from diffusion_operator.core.verdict import Outcome

from . import acts
from .acts import Act
from .look import Look
from .situation import Situation, waits_for


def climb(situation: Situation) -> Act | None:
    """The next step of what spec asks for, if it is due."""
    state, intent = situation.state, situation.intent
    if state.canary and situation.canary:
        return _next_step(situation, situation.canary)
    is_there = state.stable is not None and state.stable.revision == intent.revision
    is_sticky = state.failure is not None and state.failure.revision == intent.revision
    if is_there or is_sticky or waits_for(situation):
        return None
    if situation.goes_straight:
        why = "spec asks for 100% at once." if situation.rest else "there is nothing else that could serve."
        fresh = Watched(revision=intent.revision, ar=intent.ar)
        return acts.promote(state, fresh, reason=acts.STARTED, why=why, now=situation.now)
    return acts.start(state, intent, now=situation.now)


def _next_step(situation: Situation, look: Look) -> Act | None:
    intent, canary = situation.intent, look.watched
    if _is_asked_to_the_top(situation, canary):
        why = "spec asks for 100% at once."
        return acts.promote(situation.state, canary, reason="Asked", why=why, now=situation.now)
    is_due = (
        canary.revision == intent.revision
        and look.is_observing
        and look.passes
        and canary.observed_seconds >= intent.policy.step_seconds
        and situation.ready(canary.revision) >= intent.replicas
    )
    if not is_due or situation.is_paused:
        return None
    return up(situation, look, reason="GatesPass", why="it was observed for the whole step and all gates pass.")


def _is_asked_to_the_top(situation: Situation, canary: Watched) -> bool:
    intent = situation.intent
    return (
        canary.revision == intent.revision
        and intent.policy.initial_percent == 100
        and not situation.is_paused
        and situation.observation.in_force
        and situation.ready(canary.revision) >= intent.replicas
    )


def up(situation: Situation, look: Look, *, reason: str, why: str) -> Act:
    """One step up, from whatever weight: to the next one, or from 100 % to stable."""
    if situation.state.canary_percent == 100:
        return acts.promote(situation.state, look.watched, reason=reason, why=why, now=situation.now)
    return acts.climb(
        situation.state, look.with_evidence(), situation.intent, reason=reason, why=why, now=situation.now
    )


def renewed(situation: Situation) -> RolloutState:
    """The state with the stable revision's next period, when this one is over.

    A period lasts as long as a step and until every gate has its samples, but no longer than maxHold beyond that: with
    little traffic the gates would be blind otherwise, with none of it the metrics would be asked for ever longer times.
    """
    look, policy = situation.stable, situation.intent.policy
    if look is None or look.reading is None or look.watched.observed_seconds < policy.step_seconds:
        return situation.state
    lacks_samples = any(
        verdict.gate is not GateName.CRASHES
        and verdict.outcome is Outcome.INCONCLUSIVE
        and verdict.samples < policy.gates[verdict.gate].min_samples
        for verdict in look.verdicts
    )
    if lacks_samples and look.watched.observed_seconds < policy.step_seconds + policy.max_hold_seconds:
        return situation.state
    return situation.state.model_copy(update={"stable": acts.next_period(look.watched)})
