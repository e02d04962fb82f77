"""What a person asked for: done or refused in the pass that sees it, and never again."""

from dataclasses import dataclass, replace

from diffusion_operator.api.rollout import Failure, Watched

from . import acts, climbing
from .acts import Act, RolloutEvent
from .commands import LONGEST_COMMAND, Command, Verb
from .situation import Situation


@dataclass(frozen=True, slots=True)
class Asked:
    """What a command comes to: a revision that must go, a step up, or only words."""

    failure: Failure | None = None
    act: Act | None = None
    events: tuple[RolloutEvent, ...] = ()

    def is_done_by(self, act: Act | None) -> bool:
        """Whether a pass did what was asked for, of what takes an act. True when nothing does."""
        if self.failure is None:
            return self.act is None or act is self.act
        return act is not None and (
            act.state.due == self.failure or act.state.history[-1].reason == self.failure.reason
        )


_NOTHING = Asked()


def take(situation: Situation) -> tuple[Situation, Asked]:
    """Read the command, if it is a new one. The situation remembers that it was read."""
    command = situation.intent.command
    state = situation.state
    if command is None or command.text[:LONGEST_COMMAND] == state.handled_command:
        return situation, _NOTHING
    if command.verb is Verb.PROMOTE and situation.canary and not situation.canary.is_measured:
        return situation, _NOTHING  # what this step showed goes along to the next: it is read first
    situation = replace(situation, state=state.model_copy(update={"handled_command": command.text[:LONGEST_COMMAND]}))
    match command.verb:
        case Verb.PAUSE | Verb.RESUME:
            return _pause(situation, command)
        case Verb.ABORT:
            return _abort(situation, command)
        case Verb.RETRY:
            return _retry(situation, command)
        case Verb.PROMOTE | Verb.PROMOTE_ALL:
            return situation, _promote(situation, command)


def overtaken(command: Command) -> RolloutEvent:
    """For what was asked for in a pass that had to do something else."""
    why = "requests had to be taken away from a revision first"
    if command.verb is Verb.ABORT:
        why = "a revision loses its requests already, for another reason: ask again for what spec asks for now"
    return _refused(command, why).events[0]


def _pause(situation: Situation, command: Command) -> tuple[Situation, Asked]:
    is_paused = command.verb is Verb.PAUSE
    state = situation.state.model_copy(update={"is_paused": is_paused})
    text = f"The rollout was {'paused' if is_paused else 'resumed'} by {command.by} ({command.text})."
    if not is_paused and situation.intent.policy.paused:
        text += " spec.rollout.paused still holds it."
    reason = "RolloutPaused" if is_paused else "RolloutResumed"
    return replace(situation, state=state), Asked(events=(RolloutEvent(reason, text),))


def _abort(situation: Situation, command: Command) -> tuple[Situation, Asked]:
    state, wanted = situation.state, situation.intent.revision
    if state.failure and not state.canary and not state.stable:
        return situation, _refused(command, f"{state.failure.revision} has no requests any more")
    serving = state.canary or (state.stable if state.stable and state.stable.revision == wanted else None)
    failure = Failure(
        revision=serving.revision if serving else wanted,
        reason="Aborted",
        message=f"aborted by {command.by} ({command.text})."[:1024],
        at=situation.now,
    )
    if serving:
        return situation, Asked(failure=failure)
    event = RolloutEvent("Aborted", f"{wanted} does not start: {failure.message}", is_warning=True)
    return replace(situation, state=state.model_copy(update={"failure": failure})), Asked(events=(event,))


def _retry(situation: Situation, command: Command) -> tuple[Situation, Asked]:
    state = situation.state
    if not state.failure or state.failure.revision != situation.intent.revision:
        return situation, _refused(command, "the revision that spec asks for was not rolled back")
    event = RolloutEvent(
        "Retried",
        f"{state.failure.revision} may climb again, from the first step: asked for by {command.by} ({command.text}).",
    )
    return replace(situation, state=state.model_copy(update={"failure": None})), Asked(events=(event,))


def _promote(situation: Situation, command: Command) -> Asked:
    state, intent, look = situation.state, situation.intent, situation.canary
    ready = situation.ready(intent.revision)
    why = f"asked for by {command.by} ({command.text})."
    if state.failure and state.failure.revision == intent.revision:
        return _refused(command, f"{intent.revision} was rolled back: ask for {Verb.RETRY} first")
    if state.stable and state.stable.revision == intent.revision:
        return _refused(command, f"{intent.revision} is the stable revision already")
    if state.canary and state.canary.revision != intent.revision:
        return _refused(
            command, f"{state.canary.revision} must give its requests back first: spec asks for another one"
        )
    if not situation.observation.in_force:
        return _refused(command, "gateways do not have the last routes in force yet: ask again in a moment")
    if ready < intent.replicas:
        return _refused(command, f"{ready} of {intent.replicas} pods of {intent.revision} are ready: ask again then")
    if command.verb is Verb.PROMOTE_ALL:
        canary = look.watched if look else Watched(revision=intent.revision, ar=intent.ar)
        return Asked(act=acts.promote(state, canary, reason="Asked", why=why, now=situation.now))
    if look is None:
        return _refused(command, f"{intent.revision} has no weight yet: ask for {Verb.PROMOTE_ALL}, or wait")
    return Asked(act=climbing.up(situation, look, reason="Asked", why=why))


def _refused(command: Command, why: str) -> Asked:
    event = RolloutEvent(
        "CommandRefused", f"{command.text!r}, asked for by {command.by}, is not done: {why}.", is_warning=True
    )
    return Asked(events=(event,))
