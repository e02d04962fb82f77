"""When an old revision's pods may go: only after no gateway sends requests to them."""

from collections.abc import Collection

from diffusion_operator.api.models import RevisionStatus, Routes

from .observation import Observation


def lagging_gateways(routes: Routes, observation: Observation) -> tuple[str, ...]:
    """Gateway pods that may still work by another route table than `routes`, by name.

    A gateway that answered and knows no routes of the resource sends nothing anywhere.
    """
    return tuple(
        gateway.name
        for gateway in observation.gateways
        if not gateway.answered or gateway.generation not in {None, routes.generation}
    )


def is_named(revision: str, *, routes: Routes, observation: Observation) -> bool:
    """Whether requests may still be sent to a revision: by the table that is written, or by one that a gateway has in force."""
    return (
        any(arm.revision == revision for arm in routes.arms)
        or bool(lagging_gateways(routes, observation))
        or any(revision in gateway.revisions for gateway in observation.gateways)
    )


def retained(
    revisions: Collection[RevisionStatus],
    *,
    keep: Collection[str],
    routes: Routes,
    observation: Observation,
) -> tuple[RevisionStatus, ...]:
    """Revisions that stay: those in `keep`, and those that requests may still be sent to.

    `routes` is the table that is written already, not one that is about to be. A revision that never had a ready pod
    was never in any table: it goes without asking, or edits would pile up pods while a gateway cannot be asked.
    """
    return tuple(
        revision
        for revision in revisions
        if revision.hash in keep
        or (revision.has_been_ready and is_named(revision.hash, routes=routes, observation=observation))
    )


def removable(
    revisions: Collection[RevisionStatus],
    *,
    stay: Collection[RevisionStatus],
    routes: Routes,
    observation: Observation,
) -> frozenset[str]:
    """Hashes of revisions that have objects, and should and may have none any more.

    `revisions` are those known until now, `stay` those that are kept.
    """
    never_routed = {revision.hash for revision in revisions if not revision.has_been_ready}
    return frozenset(
        hash_
        for hash_ in observation.children - {revision.hash for revision in stay}
        if hash_ in never_routed or not is_named(hash_, routes=routes, observation=observation)
    )
