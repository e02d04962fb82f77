"""Which routes the gateways have in force, read from each ready gateway pod."""

import asyncio
from collections.abc import Mapping
from typing import Any, Protocol, Self

import aiohttp
from pydantic import BaseModel, ConfigDict, ValidationError

from diffusion_operator.api import labels
from diffusion_operator.api.models import RouteArm
from diffusion_operator.core.observation import ObservedGateway

from .connection import Connection
from .errors import AdapterError, translated

_TIMEOUT = aiohttp.ClientTimeout(total=2)


class Gateways(Protocol):
    """All gateway pods."""

    async def in_force(self, namespace: str, model: str) -> tuple[ObservedGateway, ...]:
        """What each ready gateway pod sends requests for this resource by.

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


class HttpGateways:
    """The gateway pods behind a Service, asked on their admin port."""

    def __init__(self, connection: Connection, *, namespace: str, service: str) -> None:
        self._connection = connection
        self._namespace = namespace
        self._service = service
        self._http = aiohttp.ClientSession(timeout=_TIMEOUT)

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self._http.close()

    async def in_force(self, namespace: str, model: str) -> tuple[ObservedGateway, ...]:
        """What each ready gateway pod sends requests for this resource by."""
        slices = await self._connection.request(
            "GET",
            f"/apis/discovery.k8s.io/v1/namespaces/{self._namespace}/endpointslices",
            what=f"list the pods of gateway {self._namespace}/{self._service}",
            query={"labelSelector": f"kubernetes.io/service-name={self._service}"},
        )
        addresses = sorted({address for item in slices["items"] for address in _admin_addresses(item)})
        return tuple(await asyncio.gather(*(self._ask(address, f"{namespace}/{model}") for address in addresses)))

    async def _ask(self, address: str, model: str) -> ObservedGateway:
        try:
            with translated(f"read the routes of gateway {address}"):
                async with self._http.get(f"http://{address}/admin/routes") as response:
                    response.raise_for_status()
                    answer = _AdminRoutes.model_validate(await response.json())
        except (AdapterError, ValidationError):
            return ObservedGateway(name=address, answered=False)
        routes = answer.models.get(model)
        if routes is None:
            return ObservedGateway(name=address, answered=True)
        return ObservedGateway(
            name=address,
            answered=True,
            generation=routes.generation,
            revisions=frozenset(arm.revision for arm in routes.arms),
        )


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
