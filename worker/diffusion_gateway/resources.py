"""Reads what the API server says about DiffusionModels and EndpointSlices into the table's terms.

Only the fields that matter here are read, each on its own: what a newer operator adds must not stop an older gateway.
"""

from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime
from typing import Any

import structlog
from diffusion_operator.api.base import ApiModel
from diffusion_operator.api.models import FallbackEndpoint
from diffusion_operator.api.status import RouteArm
from diffusion_operator.api.units import seconds
from pydantic import Field, ValidationError

from .routes import Model, ServiceKey, Table
from .workload import Workload

DEFAULT_MIN_OUTPUT_TOKENS = 32
"""`spec.routing.minOutputTokens` where the resource does not say."""
DEFAULT_SAMPLE_PERCENT = 5.0
"""`spec.scoring.samplePercent` where the resource does not say."""
DEFAULT_WAIT_SECONDS = 30.0
"""`spec.limits.requestTimeout` where the resource does not say."""
DEFAULT_CAUSAL_WORKLOADS = frozenset({Workload.CODE, Workload.MATH})
"""`spec.routing.causalWorkloads` where the resource does not say."""

_SERVICE_NAME_LABEL = "kubernetes.io/service-name"
_log = structlog.get_logger()


class _Metadata(ApiModel):
    name: str
    namespace: str
    labels: dict[str, str] = Field(default_factory=dict)
    creation_timestamp: datetime | None = None


class _Limits(ApiModel):
    request_timeout: str | None = None


class _Routing(ApiModel):
    min_output_tokens: int | None = None
    causal_workloads: list[str] | None = None
    detect_workload: bool | None = None
    sticky: str | None = None
    on_unconverged: str | None = None


class _Sampler(ApiModel):
    max_denoising_steps: int | None = None


class _Scoring(ApiModel):
    sample_percent: float | None = None


class _Fallback(ApiModel):
    endpoint: Any = None


class _Spec(ApiModel):
    fallback: _Fallback = _Fallback()
    limits: _Limits = _Limits()
    routing: _Routing = _Routing()
    sampler: _Sampler = _Sampler()
    scoring: _Scoring = _Scoring()


class _Routes(ApiModel):
    generation: int = 0
    arms: list[Any] = Field(default_factory=list)


class _LimitsInForce(ApiModel):
    max_sequence_length: int | None = None


class _Template(ApiModel):
    limits: _LimitsInForce = _LimitsInForce()


class _Revision(ApiModel):
    hash: str = ""
    template: _Template = _Template()


class _Status(ApiModel):
    routes: _Routes = _Routes()
    revisions: list[_Revision] = Field(default_factory=list)


class _DiffusionModel(ApiModel):
    metadata: _Metadata
    spec: _Spec = _Spec()
    status: _Status = _Status()


class _Conditions(ApiModel):
    ready: bool | None = None
    terminating: bool | None = None


class _Endpoint(ApiModel):
    addresses: list[str]
    conditions: _Conditions = _Conditions()


class _EndpointSlice(ApiModel):
    metadata: _Metadata
    address_type: str
    # The API server writes null for a Service without pods.
    endpoints: list[_Endpoint] | None = None


@dataclass(frozen=True)
class Slice:
    """Pods of one EndpointSlice; a Service may have several."""

    service: ServiceKey
    ready: frozenset[str]
    unready: frozenset[str] = frozenset()
    """Those that are not on their way out."""


def read_model(resource: dict[str, Any]) -> Model | None:
    """A DiffusionModel. None, with a log line, when it cannot be read at all."""
    try:
        seen = _DiffusionModel.model_validate(resource)
    except ValidationError as error:
        _log.warning("cannot read a DiffusionModel", error=str(error), name=resource.get("metadata", {}).get("name"))
        return None
    routing, sample_percent = seen.spec.routing, seen.spec.scoring.sample_percent
    minimum = routing.min_output_tokens
    arms = tuple(_arms(seen))
    return Model(
        namespace=seen.metadata.namespace,
        name=seen.metadata.name,
        generation=seen.status.routes.generation,
        arms=arms,
        created=int(seen.metadata.creation_timestamp.timestamp()) if seen.metadata.creation_timestamp else 0,
        min_output_tokens=DEFAULT_MIN_OUTPUT_TOKENS if minimum is None else minimum,
        causal_workloads=_workloads(routing.causal_workloads),
        detects_workload=routing.detect_workload is not False,
        is_sticky=routing.sticky == "user",
        # Who sets the cap takes what the cap gives: a preset of few steps would send nearly everything to AR.
        refuses_unconverged=routing.on_unconverged != "Accept" and seen.spec.sampler.max_denoising_steps is None,
        sample_percent=DEFAULT_SAMPLE_PERCENT if sample_percent is None else sample_percent,
        max_sequence_length=_shortest(seen.status.revisions, of=frozenset(arm.revision for arm in arms)),
        endpoint=_endpoint(seen.spec.fallback.endpoint),
        wait_seconds=_wait_seconds(seen.spec.limits.request_timeout),
    )


def _shortest(revisions: Iterable[_Revision], *, of: frozenset[str]) -> int | None:
    lengths = (revision.template.limits.max_sequence_length for revision in revisions if revision.hash in of)
    return min((length for length in lengths if length is not None), default=None)


def _arms(seen: _DiffusionModel) -> Iterable[RouteArm]:
    for arm in seen.status.routes.arms:
        try:
            yield RouteArm.model_validate(arm)
        except ValidationError as error:
            _log.warning("skip an arm that this gateway does not know", model=seen.metadata.name, error=str(error))


def _endpoint(given: Any) -> FallbackEndpoint | None:
    try:
        return None if given is None else FallbackEndpoint.model_validate(given)
    except ValidationError as error:
        _log.warning("skip an endpoint that this gateway does not know", error=str(error))
        return None


def _workloads(names: list[str] | None) -> frozenset[Workload]:
    if names is None:
        return DEFAULT_CAUSAL_WORKLOADS
    known = {workload.value for workload in Workload}
    return frozenset(Workload(name) for name in names if name in known)


def _wait_seconds(duration: str | None) -> float:
    try:
        return DEFAULT_WAIT_SECONDS if duration is None else seconds(duration)
    except ValueError as error:
        _log.warning("use the default request timeout", error=str(error), default_seconds=DEFAULT_WAIT_SECONDS)
        return DEFAULT_WAIT_SECONDS


def read_slice(resource: dict[str, Any]) -> Slice | None:
    """An EndpointSlice. None when it belongs to no Service or has no IP addresses."""
    try:
        seen = _EndpointSlice.model_validate(resource)
    except ValidationError as error:
        _log.warning("cannot read an EndpointSlice", error=str(error))
        return None
    service = seen.metadata.labels.get(_SERVICE_NAME_LABEL)
    if service is None or seen.address_type not in ("IPv4", "IPv6"):
        return None
    ready, unready = set(), set()
    for endpoint in seen.endpoints or []:
        # Kubernetes: an unknown readiness counts as ready.
        if endpoint.conditions.ready is not False:
            ready.add(endpoint.addresses[0])
        elif not endpoint.conditions.terminating:
            unready.add(endpoint.addresses[0])
    service_key = ServiceKey(seen.metadata.namespace, service)
    return Slice(service=service_key, ready=frozenset(ready), unready=frozenset(unready))


def build_table(models: Iterable[Model], slices: Iterable[Slice]) -> Table:
    """Put both together."""
    pods: dict[ServiceKey, frozenset[str]] = {}
    unready: dict[ServiceKey, frozenset[str]] = {}
    for item in slices:
        pods[item.service] = pods.get(item.service, frozenset()) | item.ready
        unready[item.service] = unready.get(item.service, frozenset()) | item.unready
    return Table(models={model.key: model for model in models}, pods=pods, unready=unready)
