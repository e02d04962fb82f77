"""What stands around the operator: a Deployment controller whose pods come up, and gateways that follow the routes."""

import asyncio
import random
from typing import Any, Self

from aiohttp import web
from diffusion_operator.api import labels

from .objects import Change, Objects


class PodsComeUp:
    """Pods of a Deployment are ready after a minute or so."""

    def __init__(self, objects: Objects, *, chance: random.Random) -> None:
        self._objects = objects
        self._chance = chance
        objects.on_change.append(self._changed)

    def _changed(self, plural: str, change: Change) -> None:
        if plural == "deployments" and change.type == "ADDED":
            metadata = change.object["metadata"]
            asyncio.get_running_loop().call_later(
                self._chance.uniform(20, 90), self._ready, metadata["namespace"], metadata["name"]
            )

    def _ready(self, namespace: str, name: str) -> None:
        ready = {"replicas": 1, "readyReplicas": 1, "observedGeneration": 1}
        self._objects.set_status("deployments", namespace, name, ready)


class GatewayPod:
    """The admin port of a gateway that has new routes in force a few seconds after they were written."""

    def __init__(self, objects: Objects, *, name: str, namespace: str, service: str, chance: random.Random) -> None:
        self._objects = objects
        self._name, self._namespace, self._service = name, namespace, service
        self._chance = chance
        self._routes: dict[str, Any] = {}
        self._runner: web.AppRunner | None = None
        objects.on_change.append(self._changed)

    async def __aenter__(self) -> Self:
        app = web.Application()
        app.router.add_get("/admin/routes", self._answer)
        self._runner = web.AppRunner(app, access_log=None, shutdown_timeout=0.1, keepalive_timeout=1e9)
        await self._runner.setup()
        await web.TCPSite(self._runner, "127.0.0.1", 0).start()
        endpoint_slice = {
            "metadata": {"name": self._name, "labels": {"kubernetes.io/service-name": self._service}},
            "ports": [{"name": "admin", "port": self._runner.addresses[0][1]}],
            "endpoints": [{"addresses": ["127.0.0.1"], "conditions": {"ready": True}}],
        }
        self._objects.create("endpointslices", self._namespace, endpoint_slice)
        return self

    async def __aexit__(self, *_: object) -> None:
        if self._runner:
            await self._runner.cleanup()

    def _changed(self, plural: str, change: Change) -> None:
        if plural == labels.PLURAL:
            delay = self._chance.uniform(0.1, 3)
            asyncio.get_running_loop().call_later(delay, self._follow, change.object)

    def _follow(self, model: dict[str, Any]) -> None:
        routes = model.get("status", {}).get("routes")
        key = f"{model['metadata']['namespace']}/{model['metadata']['name']}"
        if routes and routes["generation"] >= self._routes.get(key, {}).get("generation", 0):
            self._routes[key] = routes

    async def _answer(self, _: web.Request) -> web.Response:
        return web.json_response({"models": self._routes})
