"""The rollout's next state: what spec, annotation and observation of a resource are to the state machine, and back."""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime

from diffusion_operator.api import labels
from diffusion_operator.api.models import DiffusionModel, EndpointStatus, ObjectMeta, RevisionStatus, RolloutState
from diffusion_operator.api.rollout import Outcome

from . import defaults, rollout, routes
from .endpoints import cannot_score, ready_endpoints
from .observation import Observation
from .retirement import lagging_gateways
from .revision import Wanted
from .rollout import Command, Intent, Policy, RolloutEvent, RolloutPhase


@dataclass(frozen=True, slots=True)
class Advanced:
    """A decision of the state machine, with what people read of it in `state`."""

    state: RolloutState
    intent: Intent
    decision: rollout.Decision
    events: tuple[RolloutEvent, ...]


def advance(
    model: DiffusionModel,
    asked: Wanted,
    *,
    revisions: Mapping[str, RevisionStatus],
    endpoints: Mapping[str, EndpointStatus],
    observation: Observation,
    now: datetime,
    pace: rollout.Pace | None = None,
) -> Advanced:
    """Decide about the rollout. `revisions` are those that exist, with what was observed of their pods; `endpoints` the AR servers that are not ours."""
    replicas = model.spec.replicas or defaults.REPLICAS
    before = _known(model.status.rollout, revisions)
    fallback = routes.fallback(asked, revisions=revisions, endpoints=endpoints, before=before, replicas=replicas)
    policy = rollout.policy(model.spec, can_score=not cannot_score(endpoints.get(fallback or asked.ar_hash)))
    command, refused = _command(model.metadata, before)
    if refused:
        before = before.model_copy(update={"handled_command": _annotation(model.metadata)})
    intent = Intent(
        asked.diffusion.hash,
        _compared_with(asked, fallback, policy),
        policy,
        replicas=replicas,
        command=command,
    )
    decision = rollout.step(
        intent,
        before,
        rollout.Observation(
            ready={revision.hash: revision.ready_pods for revision in revisions.values()} | ready_endpoints(endpoints),
            in_force=not lagging_gateways(model.status.routes, observation),
            readings=observation.readings,
            crashes=observation.crashes,
            runs=observation.runs,
            starts=observation.starts,
            is_measured=observation.is_measured,
        ),
        now=now,
        pace=pace,
    )
    state = _in_short(decision.status, fallback=fallback, policy=policy)
    return Advanced(state, intent, decision, (*refused, *decision.events))


def is_at_rest(state: RolloutState, asked: Wanted) -> bool:
    """Whether the rollout waits for nothing but metrics and changes: no gateway need be asked for its sake."""
    watched = [one for one in (state.stable, state.canary) if one]
    is_over = state.phase in {RolloutPhase.PROMOTED, RolloutPhase.ROLLED_BACK}
    is_wanted = asked.diffusion.hash in {
        state.stable and state.stable.revision,
        state.failure and state.failure.revision,
    }
    return is_over and is_wanted and state.canary is None and all(one.started_at for one in watched)


def has_command(metadata: ObjectMeta, state: RolloutState) -> bool:
    """Whether a person asked for something that was not handled yet."""
    text = _annotation(metadata)
    return bool(text) and text != state.handled_command


def _known(state: RolloutState, revisions: Mapping[str, RevisionStatus]) -> RolloutState:
    """Without revisions that nothing is known of: what their pods were made of is lost."""
    gone: dict[str, object] = {}
    if state.stable and state.stable.revision not in revisions:
        gone["stable"] = None
    if state.canary and state.canary.revision not in revisions:
        gone |= {"canary": None, "canary_percent": 0}
    return state.model_copy(update=gone) if gone else state


def _compared_with(asked: Wanted, fallback: str | None, policy: Policy) -> str | None:
    """The AR revision that serves beside diffusion, or that must before diffusion gets a share."""
    return fallback if fallback or policy.initial_percent == 100 else asked.ar_hash


def _annotation(metadata: ObjectMeta) -> str:
    return metadata.annotations.get(labels.ROLLOUT_COMMAND, "")[: rollout.LONGEST_COMMAND]


def _command(metadata: ObjectMeta, state: RolloutState) -> tuple[Command | None, tuple[RolloutEvent, ...]]:
    """What a person asks for by annotation, and a refusal of what is no command."""
    if not has_command(metadata, state):
        return None, ()
    by = _asked_by(metadata)
    try:
        return rollout.parse_command(_annotation(metadata), by=by), ()
    except ValueError as error:
        message = f"Annotation {labels.ROLLOUT_COMMAND}, written by {by}: {error}."
        return None, (RolloutEvent("CommandRefused", message, is_warning=True),)


def _asked_by(metadata: ObjectMeta) -> str:
    """Who wrote the annotation and when: the API server notes the program and the time, but no person."""
    field = f"f:{labels.ROLLOUT_COMMAND}"
    for entry in metadata.managed_fields:
        annotations = entry.fields_v1.get("f:metadata", {}).get("f:annotations", {})
        if field in annotations:
            return f"{entry.manager} at {entry.time or 'an unknown time'}"
    return "a person"


def _in_short(state: RolloutState, *, fallback: str | None, policy: Policy) -> RolloutState:
    """With the fields that columns, gateways of the first release and people read."""
    percent = state.canary_percent
    return state.model_copy(
        update={
            "stable_revision": state.stable.revision if state.stable else None,
            "canary_revision": state.canary.revision if state.canary else None,
            "fallback_revision": fallback,
            "diffusion_percent": 100 if state.stable else percent,
            "step": _step(percent, policy) if state.canary else "",
            "gate_summary": _gates(state),
        }
    )


def _step(percent: int, policy: Policy) -> str:
    """Which step of how many, counted by weights: 3/20 at 15 % of a ladder of 5, 10, …, 100."""
    done = sum(step <= percent for step in policy.ladder)
    return f"{max(1, done)}/{len(policy.ladder)}"


def _gates(state: RolloutState) -> str:
    if not (state.stable or state.canary):
        return ""
    counts = [(outcome, sum(gate.verdict is outcome for gate in state.gates)) for outcome in Outcome]
    # An error is the operator's word for it. People, of whom most have promoted long ago, should not be alarmed.
    return ", ".join(
        f"{count} {'no data' if outcome is Outcome.ERROR else outcome}" for outcome, count in counts if count
    )
