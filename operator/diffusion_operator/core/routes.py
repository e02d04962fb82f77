"""Who gets which share of the requests.

Until a diffusion revision is promoted, the AR revision is the stable arm; it is the fallback arm always. A revision
that was ready once keeps its share when its pods blink: gateways send single requests to the fallback, and a table
that flapped with them would only add to the trouble.
"""

from collections.abc import Collection, Mapping

from diffusion_operator.api.models import (
    ArmKind,
    ArmRole,
    EndpointStatus,
    FallbackEndpoint,
    RevisionStatus,
    RolloutState,
    RouteArm,
    Routes,
)

from .names import child_name
from .revision import Wanted


def fallback(
    wanted: Wanted,
    *,
    revisions: Mapping[str, RevisionStatus],
    endpoints: Mapping[str, EndpointStatus],
    before: RolloutState,
    replicas: int,
) -> str | None:
    """The AR revision that serves: the wanted one, once it can carry what the one before it carries.

    One that spec no longer names goes on until then. A server that is not ours counts as a revision.
    """
    known = before.fallback_revision in {*revisions, *endpoints}
    current = before.fallback_revision if known else None
    if wanted.ar is None:
        is_ready = wanted.ar_hash in endpoints and endpoints[wanted.ar_hash].is_ready
        return wanted.ar_hash if is_ready else current
    target = revisions[wanted.ar.hash]
    if current in {None, target.hash}:
        return target.hash if target.has_been_ready else None
    return target.hash if target.ready_pods >= replicas else current


def arms(rollout: RolloutState, *, model: str, endpoints: Mapping[str, FallbackEndpoint]) -> list[RouteArm]:
    """The arms of a rollout. Percents sum to 100, or nothing was ever ready and there is no arm.

    `endpoints` are the servers that are not ours, by hash.
    """
    stable, canary, fallback_ = rollout.stable_revision, rollout.canary_revision, rollout.fallback_revision
    main = stable or fallback_
    percent = rollout.canary_percent if main else 100

    def arm(role: ArmRole, revision: str, *, kind: ArmKind, percent: int) -> RouteArm:
        endpoint = endpoints.get(revision)
        service = "" if endpoint else child_name(model, revision)
        return RouteArm(role=role, revision=revision, kind=kind, service=service, percent=percent, endpoint=endpoint)

    result = []
    if main:
        kind = ArmKind.DIFFUSION if stable else ArmKind.AR
        share = 100 - percent if canary else 100
        result.append(arm(ArmRole.STABLE, main, kind=kind, percent=share))
    if canary:
        result.append(arm(ArmRole.CANARY, canary, kind=ArmKind.DIFFUSION, percent=percent))
    if fallback_:
        result.append(arm(ArmRole.FALLBACK, fallback_, kind=ArmKind.AR, percent=0))
    return result


def next_table(before: Routes, wanted_arms: Collection[RouteArm]) -> Routes:
    """The table with these arms: the same one when nothing changed, else one generation on."""
    if list(wanted_arms) == before.arms:
        return before
    return Routes(generation=before.generation + 1, arms=list(wanted_arms))
