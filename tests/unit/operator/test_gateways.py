"""Asking the gateways which routes they have in force."""

from collections.abc import AsyncIterator, Mapping
from typing import Any

import pytest
from aiohttp import web
from aiohttp.test_utils import TestServer
from diffusion_operator.adapters import clock
from diffusion_operator.adapters.gateways import HttpGateways
from diffusion_operator.api.models import EndpointStatus
from diffusion_operator.core.observation import ObservedGateway

ARM = {"role": "stable", "revision": "0badc0de", "kind": "ar", "service": "s-0badc0de", "port": 8001, "percent": 100}
SERVED = {"models": {"stories/storyteller": {"generation": 3, "arms": [{**ARM, "readyPods": 1}]}}}


class Slices:
    """Answers the question for EndpointSlices."""

    def __init__(self, *slices: Mapping[str, Any]) -> None:
        self.slices = slices
        self.query: Mapping[str, str] | None = None

    async def request(self, method: str, path: str, *, what: str, query: Mapping[str, str]) -> dict[str, Any]:
        assert (method, path) == ("GET", "/apis/discovery.k8s.io/v1/namespaces/system/endpointslices")
        self.query = query
        return {"items": list(self.slices)}


def a_slice(*addresses: str, port: int | None = None, ready: bool = True) -> dict[str, Any]:
    return {
        "ports": [{"name": "admin", "port": port}] if port else None,
        "endpoints": [{"addresses": [address], "conditions": {"ready": ready}} for address in addresses],
    }


async def ask(*slices: Mapping[str, Any]) -> tuple[ObservedGateway, ...]:
    connection = Slices(*slices)
    async with HttpGateways(connection, namespace="system", service="gateway") as gateways:  # type: ignore[arg-type]
        answer = await gateways.in_force("stories", "storyteller", generation=3)
    assert connection.query == {"labelSelector": "kubernetes.io/service-name=gateway"}
    return answer


@pytest.fixture
async def page() -> AsyncIterator[dict[str, Any]]:
    """What a gateway on loopback answers; its port is under `port`."""
    served: dict[str, Any] = {"body": SERVED, "status": 200}

    async def routes(_: web.Request) -> web.Response:
        return web.json_response(served["body"], status=served["status"])

    app = web.Application()

    async def endpoints(_: web.Request) -> web.Response:
        return web.json_response(served.get("endpoints", {"models": {}}), status=served["status"])

    app.router.add_get("/admin/routes", routes)
    app.router.add_get("/admin/endpoints", endpoints)
    async with TestServer(app) as server:
        served["port"] = server.port
        yield served


async def test_each_ready_pod_is_asked_on_its_admin_port(page: dict[str, Any]) -> None:
    (gateway,) = await ask(a_slice("127.0.0.1", port=page["port"]))
    assert (gateway.answered, gateway.generation, gateway.revisions) == (True, 3, frozenset({"0badc0de"}))


async def test_a_gateway_that_does_not_serve_the_resource_names_nothing(page: dict[str, Any]) -> None:
    page["body"] = {"models": {}}
    (gateway,) = await ask(a_slice("127.0.0.1", port=page["port"]))
    assert (gateway.answered, gateway.generation, gateway.revisions) == (True, None, frozenset())


@pytest.mark.parametrize(
    ("status", "body"), [(500, SERVED), (200, {"other": 1}), (200, {"models": {"stories/storyteller": {}}})]
)
async def test_an_answer_that_makes_no_sense_is_none(page: dict[str, Any], status: int, body: object) -> None:
    page |= {"status": status, "body": body}
    (gateway,) = await ask(a_slice("127.0.0.1", port=page["port"]))
    if body == {"other": 1}:
        assert not gateway.answered
    assert gateway.generation is None
    assert not gateway.answered


async def test_a_pod_that_does_not_answer_is_told_apart(unused_tcp_port: int) -> None:
    (gateway,) = await ask(a_slice("127.0.0.1", port=unused_tcp_port))
    assert gateway == ObservedGateway(name=f"127.0.0.1:{unused_tcp_port}", answered=False)


async def test_a_pod_that_is_not_ready_is_not_asked(page: dict[str, Any]) -> None:
    assert await ask(a_slice("127.0.0.1", port=page["port"], ready=False)) == ()


async def test_no_gateway_is_no_answer() -> None:
    assert await ask() == ()


async def test_a_pod_in_two_slices_is_asked_once(page: dict[str, Any]) -> None:
    slice_ = a_slice("127.0.0.1", port=page["port"])
    assert len(await ask(slice_, slice_)) == 1


async def test_what_all_gateways_had_a_moment_ago_is_not_asked_for_again(page: dict[str, Any]) -> None:
    connection = Slices(a_slice("127.0.0.1", port=page["port"]))
    async with HttpGateways(connection, namespace="system", service="gateway") as gateways:  # type: ignore[arg-type]
        first = await gateways.in_force("stories", "storyteller", generation=3)
        page["status"] = 500
        assert await gateways.in_force("stories", "storyteller", generation=3) == first


async def found(*slices: Mapping[str, Any]) -> tuple[EndpointStatus, ...]:
    async with HttpGateways(Slices(*slices), namespace="system", service="gateway") as gateways:  # type: ignore[arg-type]
        return await gateways.endpoints("stories", "storyteller")


async def test_what_each_gateway_found_about_endpoints_is_read(page: dict[str, Any]) -> None:
    said = {"revision": "0badc0de", "state": "Unreachable", "message": "no route", "scores": ["chats"]}
    page["endpoints"] = {"models": {"stories/storyteller": [said], "poems/storyteller": [said, said]}}
    (status,) = await found(a_slice("127.0.0.1", port=page["port"]))
    assert status.to_wire() == said


@pytest.mark.parametrize(
    ("status", "body"), [(404, {}), (200, {"other": 1}), (200, {"models": {"stories/storyteller": [{"state": "New"}]}})]
)
async def test_a_gateway_of_another_release_says_nothing_about_endpoints(
    page: dict[str, Any], status: int, body: object
) -> None:
    page |= {"status": status, "endpoints": body}
    assert await found(a_slice("127.0.0.1", port=page["port"])) == ()


async def test_endpoints_are_followed_once_a_resource_asks_for_them_and_as_long_as_it_does(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    async with HttpGateways(Slices(), namespace="system", service="gateway") as gateways:  # type: ignore[arg-type]
        assert not gateways.are_endpoints_wanted
        await gateways.endpoints("stories", "storyteller")
        assert gateways.are_endpoints_wanted
        later = clock.monotonic() + 3600
        monkeypatch.setattr(clock, "monotonic", lambda: later)
        assert not gateways.are_endpoints_wanted


async def test_the_first_gateway_is_found_though_there_was_none_a_while_ago(
    page: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    connection = Slices()
    async with HttpGateways(connection, namespace="system", service="gateway") as gateways:  # type: ignore[arg-type]
        assert await gateways.in_force("stories", "storyteller", generation=3) == ()
        connection.slices = (a_slice("127.0.0.1", port=page["port"]),)
        later = clock.monotonic() + 6
        monkeypatch.setattr(clock, "monotonic", lambda: later)
        (gateway,) = await gateways.in_force("stories", "storyteller", generation=3)
        assert gateway.generation == 3
