"""The part of a Kubernetes API server that a watcher meets: lists, watches with history, and everything that goes wrong with them."""

import asyncio
import base64
import json
from dataclasses import dataclass
from typing import Any

from aiohttp import web

Json = dict[str, Any]


@dataclass(frozen=True)
class _Event:
    version: int
    kind: str
    path: str
    item: Json


class FakeApi:
    """Objects by collection path, such as `/apis/discovery.k8s.io/v1/endpointslices`."""

    def __init__(self) -> None:
        self._objects: dict[tuple[str, str, str], Json] = {}
        self._version = 1
        self._oldest = 0
        self._events: list[_Event] = []
        self._changed = asyncio.Condition()
        self._watches: set[asyncio.Task[Any]] = set()
        self._runner: web.AppRunner | None = None
        self.port = 0
        self.lists = 0
        self.watches = 0
        self.list_status = 200
        self.secrets: dict[tuple[str, str], dict[str, str]] = {}
        """By namespace and name: entries as text."""
        self.secret_status = 200
        self.silent = False
        """Connections stay open and nothing comes any more."""

    async def start(self) -> None:
        app = web.Application()
        app.router.add_get("/apis/{group}/{version}/{plural}", self._get)
        app.router.add_get("/apis/{group}/{version}/namespaces/{namespace}/{plural}", self._get)
        app.router.add_get("/api/v1/namespaces/{namespace}/secrets/{name}", self._get_secret)
        self._runner = web.AppRunner(app, shutdown_timeout=0.1)
        await self._runner.setup()
        site = web.TCPSite(self._runner, "127.0.0.1", self.port)
        await site.start()
        self.port = self._runner.addresses[0][1]

    async def stop(self) -> None:
        """Away: connections are refused. `start` brings it back at the same address."""
        self.cut_watches()
        if self._runner is not None:
            await self._runner.cleanup()
            self._runner = None

    def cut_watches(self) -> None:
        """Break all watch connections."""
        for task in self._watches:
            task.cancel()

    async def put(self, path: str, item: Json) -> None:
        """Create or replace an object."""
        key = (path, item["metadata"].get("namespace", ""), item["metadata"]["name"])
        kind = "MODIFIED" if key in self._objects else "ADDED"
        await self._record(key, kind, item)

    async def delete(self, path: str, namespace: str, name: str) -> None:
        key = (path, namespace, name)
        await self._record(key, "DELETED", self._objects[key])

    async def bookmark(self, path: str) -> None:
        """Tell the watches of a collection where history has come to."""
        self._version += 1
        item = {"metadata": {"resourceVersion": str(self._version)}}
        await self._tell(_Event(self._version, "BOOKMARK", path, item))

    async def garble(self, path: str) -> None:
        """Put an event into history that nobody can read."""
        self._version += 1
        await self._tell(_Event(self._version, "MODIFIED", path, {"metadata": {}}))

    def forget_history(self) -> None:
        """Watches from before now get 410."""
        self._version += 1
        self._oldest = self._version

    async def _record(self, key: tuple[str, str, str], kind: str, item: Json) -> None:
        self._version += 1
        item = json.loads(json.dumps(item))
        item["metadata"]["resourceVersion"] = str(self._version)
        if kind == "DELETED":
            del self._objects[key]
        else:
            self._objects[key] = item
        await self._tell(_Event(self._version, kind, key[0], item))

    async def _tell(self, event: _Event) -> None:
        self._events.append(event)
        async with self._changed:
            self._changed.notify_all()

    async def _get(self, request: web.Request) -> web.StreamResponse:
        info = request.match_info
        path = f"/apis/{info['group']}/{info['version']}/{info['plural']}"
        if request.query.get("watch") == "true":
            return await self._watch(request, path)
        self.lists += 1
        if self.list_status != 200:
            return web.json_response({"kind": "Status", "code": self.list_status}, status=self.list_status)
        items = [item for (at, _, _), item in self._objects.items() if at == path and _selected(item, request)]
        return web.json_response({"metadata": {"resourceVersion": str(self._version)}, "items": items})

    async def _get_secret(self, request: web.Request) -> web.StreamResponse:
        entries = self.secrets.get((request.match_info["namespace"], request.match_info["name"]))
        status = self.secret_status if entries is not None or self.secret_status != 200 else 404
        if status != 200 or entries is None:
            return web.json_response({"kind": "Status", "code": status}, status=status)
        data = {name: base64.b64encode(value.encode()).decode() for name, value in entries.items()}
        return web.json_response({"kind": "Secret", "apiVersion": "v1", "data": data})

    async def _watch(self, request: web.Request, path: str) -> web.StreamResponse:
        self.watches += 1
        task = asyncio.current_task()
        assert task is not None
        self._watches.add(task)
        try:
            return await self._send_events(request, path)
        finally:
            self._watches.discard(task)

    async def _send_events(self, request: web.Request, path: str) -> web.StreamResponse:
        response = web.StreamResponse()
        await response.prepare(request)
        seen = int(request.query["resourceVersion"])
        if seen < self._oldest:
            await _line(response, {"type": "ERROR", "object": {"code": 410, "message": "too old resource version"}})
            return response
        end = asyncio.get_running_loop().time() + float(request.query["timeoutSeconds"])
        position = 0
        try:
            async with asyncio.timeout_at(end):
                while True:
                    for event in self._events[position:]:
                        position += 1
                        if event.version > seen and event.path == path and _selected(event.item, request, event.kind):
                            await _line(response, {"type": event.kind, "object": event.item})
                    async with self._changed:
                        await self._changed.wait_for(lambda at=position: len(self._events) > at and not self.silent)
        except TimeoutError:
            if self.silent:
                await asyncio.Event().wait()
            return response


def _selected(item: Json, request: web.Request, kind: str = "") -> bool:
    if kind == "BOOKMARK":
        return True
    namespace = request.match_info.get("namespace")
    if namespace is not None and item["metadata"].get("namespace") != namespace:
        return False
    wanted = request.query.get("labelSelector")
    labels = item["metadata"].get("labels", {})
    return wanted is None or all(labels.get(k) == v for k, v in (term.split("=") for term in wanted.split(",")))


async def _line(response: web.StreamResponse, event: Json) -> None:
    await response.write(json.dumps(event).encode() + b"\n")
