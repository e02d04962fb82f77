"""Which routes the gateways have in force, read from each ready gateway pod."""

import asyncio
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Protocol, Self

import aiohttp
from pydantic import BaseModel, ConfigDict, ValidationError

from diffusion_operator.api import labels
from diffusion_operator.api.models import EndpointStatus, RouteArm
from diffusion_operator.core.observation import ObservedGateway

from . import clock
from .connection import Connection
from .errors import AdapterError, translated

_TIMEOUT = aiohttp.ClientTimeout(total=2)
# A gateway never goes back to older routes, so an answer that shows the wanted ones stays true for a while; and one table
# holds all models: a thousand of them need not fetch it a thousand times.
_KNOWN_SECONDS = 30.0
_AT_MOST_EVERY_SECONDS = 0.5
# The first gateway begins with the routes that are written by then: nothing waits for it.
_NONE_KNOWN_SECONDS = 5.0
_ENDPOINTS_AT_MOST_EVERY_SECONDS = 2.0
# Passes of a resource with an endpoint ask at least every ten minutes.
_ENDPOINTS_WANTED_SECONDS = 1500.0

Key = tuple[str, str]
"""Namespace and name of a resource."""


class Gateways(Protocol):
    """All gateway pods."""

    async def in_force(self, namespace: str, model: str, *, generation: int) -> tuple[ObservedGateway, ...]:
        """What each ready gateway pod sends requests for this resource by.

        `generation` is that of the routes that are written: where all gateways had them half a minute ago they have now.

        Raises:
            AdapterError: the API server does not say which gateway pods there are.
        """
        ...

    async def endpoints(self, namespace: str, model: str) -> tuple[EndpointStatus, ...]:
        """What each ready gateway pod found about the AR servers of this resource that are not ours.

        Raises:
            AdapterError: the API server does not say which gateway pods there are.
        """
        ...


class _RoutesInForce(BaseModel):
    model_config = ConfigDict(extra="ignore")

    generation: int
    arms: list[RouteArm]


class _AdminRoutes(BaseModel):
    model_config = ConfigDict(extra="ignore")

    models: dict[str, _RoutesInForce]


class _AdminEndpoints(BaseModel):
    model_config = ConfigDict(extra="ignore")

    models: dict[str, list[EndpointStatus]]


@dataclass(frozen=True, slots=True)
class _Answer:
    """What one gateway pod said; None when it did not answer."""

    address: str
    routes: _AdminRoutes | None

    def of(self, model: str) -> ObservedGateway:
        if self.routes is None:
            return ObservedGateway(name=self.address, answered=False)
        found = self.routes.models.get(model)
        if found is None:
            return ObservedGateway(name=self.address, answered=True)
        return ObservedGateway(
            name=self.address,
            answered=True,
            generation=found.generation,
            revisions=frozenset(arm.revision for arm in found.arms),
        )


class HttpGateways:
    """The gateway pods behind a Service, asked on their admin port."""

    def __init__(self, connection: Connection, *, namespace: str, service: str) -> None:
        self._connection = connection
        self._namespace = namespace
        self._service = service
        self._http = aiohttp.ClientSession(timeout=_TIMEOUT)
        self._answers: tuple[_Answer, ...] = ()
        self._asked_at = float("-inf")
        self._asking = asyncio.Lock()
        self._endpoints: dict[Key, tuple[EndpointStatus, ...]] = {}
        self._endpoints_asked_at = float("-inf")
        self._endpoints_wanted_at = float("-inf")
        self._asking_endpoints = asyncio.Lock()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self._http.close()

    async def in_force(self, namespace: str, model: str, *, generation: int) -> tuple[ObservedGateway, ...]:
        """What each ready gateway pod sends requests for this resource by."""
        key = f"{namespace}/{model}"
        async with self._asking:
            seen = tuple(answer.of(key) for answer in self._answers)
            are_all = all(gateway.answered and gateway.generation == generation for gateway in seen)
            known_for = _NONE_KNOWN_SECONDS if not seen else _KNOWN_SECONDS if are_all else _AT_MOST_EVERY_SECONDS
            if clock.monotonic() - self._asked_at > known_for:
                self._answers = await self._ask_all()
                self._asked_at = clock.monotonic()
        return tuple(answer.of(key) for answer in self._answers)

    async def endpoints(self, namespace: str, model: str) -> tuple[EndpointStatus, ...]:
        """What each ready gateway pod found about the AR servers of this resource that are not ours."""
        self._endpoints_wanted_at = clock.monotonic()
        return (await self.all_endpoints()).get((namespace, model), ())

    @property
    def are_endpoints_wanted(self) -> bool:
        """Whether any resource has an AR server that is not ours."""
        return clock.monotonic() - self._endpoints_wanted_at < _ENDPOINTS_WANTED_SECONDS

    async def all_endpoints(self) -> Mapping[Key, tuple[EndpointStatus, ...]]:
        """The same of all resources, by namespace and name. Gateways list none of the others, so this is cheap."""
        async with self._asking_endpoints:
            if clock.monotonic() - self._endpoints_asked_at > _ENDPOINTS_AT_MOST_EVERY_SECONDS:
                said = await asyncio.gather(*(self._ask_endpoints(address) for address in await self._addresses()))
                found: dict[Key, list[EndpointStatus]] = {}
                for answer in said:
                    for key, statuses in answer.models.items():
                        namespace, _, name = key.partition("/")
                        found.setdefault((namespace, name), []).extend(statuses)
                self._endpoints = {key: tuple(statuses) for key, statuses in found.items()}
                self._endpoints_asked_at = clock.monotonic()
        return self._endpoints

    async def _ask_all(self) -> tuple[_Answer, ...]:
        return tuple(await asyncio.gather(*(self._ask(address) for address in await self._addresses())))

    async def _addresses(self) -> list[str]:
        """`host:port` of the admin port of each ready gateway pod."""
        slices = await self._connection.request(
            "GET",
            f"/apis/discovery.k8s.io/v1/namespaces/{self._namespace}/endpointslices",
            what=f"list the pods of gateway {self._namespace}/{self._service}",
            query={"labelSelector": f"kubernetes.io/service-name={self._service}"},
        )
        return sorted({address for item in slices["items"] for address in _admin_addresses(item)})

    async def _ask(self, address: str) -> _Answer:
        try:
            with translated(f"read the routes of gateway {address}"):
                async with self._http.get(f"http://{address}/admin/routes") as response:
                    response.raise_for_status()
                    return _Answer(address, _AdminRoutes.model_validate(await response.json()))
        except (AdapterError, ValidationError):
            return _Answer(address, None)

    async def _ask_endpoints(self, address: str) -> _AdminEndpoints:
        """Nothing from one that does not answer, or is of a release that knows no endpoints."""
        try:
            with translated(f"read what gateway {address} knows of endpoints"):
                async with self._http.get(f"http://{address}/admin/endpoints") as response:
                    response.raise_for_status()
                    return _AdminEndpoints.model_validate(await response.json())
        except (AdapterError, ValidationError):
            return _AdminEndpoints(models={})


def _admin_addresses(endpoint_slice: Mapping[str, Any]) -> list[str]:
    """`host:port` of the admin port of each ready pod in a slice."""
    ports = {port.get("name"): port["port"] for port in endpoint_slice.get("ports") or ()}
    port = ports.get("admin", labels.GATEWAY_ADMIN_PORT)
    return [
        f"[{address}]:{port}" if ":" in address else f"{address}:{port}"
        for endpoint in endpoint_slice.get("endpoints") or ()
        if endpoint.get("conditions", {}).get("ready", True)
        for address in endpoint["addresses"]
    ]
