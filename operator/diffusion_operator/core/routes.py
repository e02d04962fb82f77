"""Who gets which share of the requests.

Until a diffusion revision is promoted, the AR revision is the stable arm; it is the fallback arm always. A revision
that was ready once keeps its share when its pods blink: gateways send single requests to the fallback, and a table
that flapped with them would only add to the trouble.
"""

from collections.abc import Collection, Mapping
from dataclasses import dataclass, replace

from diffusion_operator.api.models import (
    ArmKind,
    ArmRole,
    RevisionStatus,
    Rollout,
    RolloutStatus,
    RouteArm,
    Routes,
)

from . import defaults
from .names import child_name
from .revision import Wanted


@dataclass(frozen=True, slots=True)
class Plan:
    """Who plays which part, by revision hash, and why spec does not have its way yet.

    `canary_percent` is the share of `canary`, 0 when there is none; the rest is `stable`'s, or `fallback`'s while
    there is no stable.
    """

    stable: str | None
    fallback: str | None
    canary: str | None = None
    canary_percent: int = 0
    held_by_pause: bool = False
    waits_for_stable: bool = False

    def to_status(self) -> RolloutStatus:
        """As it is remembered."""
        return RolloutStatus(
            stable_revision=self.stable,
            canary_revision=self.canary,
            fallback_revision=self.fallback,
            canary_percent=self.canary_percent,
            diffusion_percent=100 if self.stable else self.canary_percent,
        )


def plan(
    wanted: Wanted,
    *,
    revisions: Mapping[str, RevisionStatus],
    before: RolloutStatus,
    rollout: Rollout,
    replicas: int,
) -> Plan:
    """Choose the revision of each part, and the canary's share.

    `revisions` are those that exist, with what was observed of their pods; `before` is who played which part until now.
    """
    target = revisions[wanted.diffusion.hash]
    fallback = _fallback(wanted, revisions=revisions, before=before, replicas=replicas)
    stable = before.stable_revision if before.stable_revision in revisions else None
    settled = Plan(stable=stable, fallback=fallback)
    if target.hash == stable or not target.has_been_ready:
        return settled

    current = before.canary_percent if before.canary_revision == target.hash else 0
    asked = rollout.initial_percent or defaults.INITIAL_PERCENT
    if wanted.ar is None and stable is None:
        asked = 100  # nobody else could serve the rest
    percent = current if rollout.paused else asked
    if percent == 100 and (stable or fallback) and target.ready_pods < replicas:
        percent = current  # what serves now has all its pods; what takes over from it must have them too
    if percent == 100:
        return Plan(stable=target.hash, fallback=fallback if wanted.ar else None)
    if percent and not stable and not fallback:
        return replace(settled, waits_for_stable=True)
    canary = target.hash if percent else None
    return replace(
        settled, canary=canary, canary_percent=percent, held_by_pause=bool(rollout.paused) and percent != asked
    )


def _fallback(
    wanted: Wanted, *, revisions: Mapping[str, RevisionStatus], before: RolloutStatus, replicas: int
) -> str | None:
    """The AR revision that serves: the wanted one, once it can carry what the one before it carries.

    One that spec no longer names goes on while nothing else could serve.
    """
    current = before.fallback_revision if before.fallback_revision in revisions else None
    if wanted.ar is None:
        return None if before.stable_revision in revisions else current
    target = revisions[wanted.ar.hash]
    if current in {None, target.hash}:
        return target.hash if target.has_been_ready else None
    return target.hash if target.ready_pods >= replicas else current


def arms(chosen: Plan, *, model: str) -> list[RouteArm]:
    """The arms of a plan. Percents sum to 100, or nothing was ever ready and there is no arm."""
    main = chosen.stable or chosen.fallback
    result = []
    if main:
        kind = ArmKind.DIFFUSION if chosen.stable else ArmKind.AR
        result.append(_arm(ArmRole.STABLE, main, kind=kind, percent=100 - chosen.canary_percent, model=model))
    if chosen.canary:
        result.append(
            _arm(ArmRole.CANARY, chosen.canary, kind=ArmKind.DIFFUSION, percent=chosen.canary_percent, model=model)
        )
    if chosen.fallback:
        result.append(_arm(ArmRole.FALLBACK, chosen.fallback, kind=ArmKind.AR, percent=0, model=model))
    return result


def _arm(role: ArmRole, revision: str, *, kind: ArmKind, percent: int, model: str) -> RouteArm:
    return RouteArm(role=role, revision=revision, kind=kind, service=child_name(model, revision), percent=percent)


def next_table(before: Routes, wanted_arms: Collection[RouteArm]) -> Routes:
    """The table with these arms: the same one when nothing changed, else one generation on."""
    if list(wanted_arms) == before.arms:
        return before
    return Routes(generation=before.generation + 1, arms=list(wanted_arms))
