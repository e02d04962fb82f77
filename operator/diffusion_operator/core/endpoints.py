"""AR servers that are not ours: what is known of them, from all gateways and from before."""

from collections.abc import Collection, Mapping

from diffusion_operator.api.models import (
    DiffusionModelStatus,
    EndpointState,
    EndpointStatus,
    FallbackEndpoint,
    endpoint_hash,
)

from .revision import Wanted

# The worst first: an endpoint is as ready as the gateway finds it that has most trouble with it.
_BY_SEVERITY = (
    EndpointState.SECRET_MISSING,
    EndpointState.UNAUTHORIZED,
    EndpointState.UNREACHABLE,
    EndpointState.MODEL_MISSING,
    EndpointState.READY,
)


def known_endpoints(status: DiffusionModelStatus, asked: Wanted) -> dict[str, FallbackEndpoint]:
    """The servers that requests may be sent to now or soon, by hash: those in the table, and that of spec."""
    known = {arm.revision: arm.endpoint for arm in status.routes.arms if arm.endpoint}
    if asked.endpoint:
        known[endpoint_hash(asked.endpoint)] = asked.endpoint
    return known


def endpoint_statuses(
    known: Collection[str], *, before: Collection[EndpointStatus], reports: Collection[EndpointStatus]
) -> dict[str, EndpointStatus]:
    """What is known of each server, by hash. What no gateway speaks of stays as it was: it may be gateways that are away."""
    earlier = {status.revision: status for status in before if status.revision in known}
    found = {hash_: [report for report in reports if report.revision == hash_] for hash_ in known}
    return earlier | {hash_: _merged(said, earlier.get(hash_)) for hash_, said in found.items() if said}


def cannot_score(status: EndpointStatus | None) -> bool:
    """Whether it is known that no text can be scored."""
    return status is not None and status.scores is not None and not status.scores


def ready_endpoints(statuses: Mapping[str, EndpointStatus]) -> dict[str, int]:
    """1 for a server that answers, as if it were one pod, else 0."""
    return {hash_: int(status.is_ready) for hash_, status in statuses.items()}


def _merged(reports: Collection[EndpointStatus], before: EndpointStatus | None) -> EndpointStatus:
    worst = min(reports, key=lambda report: _BY_SEVERITY.index(report.state))
    scored = [report.scores for report in reports if report.scores is not None]
    # A gateway that has just started does not know yet; one that finds it able is not overruled by one that could not look.
    scores = max(scored, key=len, default=before.scores if before else None)
    return worst.model_copy(update={"scores": scores})
