"""An API server on loopback, in the event loop of the test and so in its time. What it answers may be disturbed."""

import asyncio
import json
import random
import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any, Self

from aiohttp import web
from diffusion_operator.api import labels

from .objects import Change, Object, Objects, RefusedError, matches

# kopf waits until it has found namespaces and CRDs, though it watches neither.
_CORE = {"namespaces": "Namespace", "configmaps": "ConfigMap", "services": "Service", "pods": "Pod", "events": "Event"}
_GROUPS = {
    "apiextensions.k8s.io/v1": {"customresourcedefinitions": "CustomResourceDefinition"},
    "apps/v1": {"deployments": "Deployment"},
    "batch/v1": {"jobs": "Job"},
    "coordination.k8s.io/v1": {"leases": "Lease"},
    "discovery.k8s.io/v1": {"endpointslices": "EndpointSlice"},
    labels.API_VERSION: {labels.PLURAL: labels.KIND},
}
_PATH = re.compile(
    r"/(?:api/(?P<core>v1)|apis/(?P<group>[^/]+/[^/]+))"
    r"(?:/namespaces/(?P<namespace>[^/]+))?/(?P<plural>[a-z]+)(?:/(?P<name>[^/]+))?(?:/(?P<part>status))?$"
)


@dataclass
class Weather:
    """What goes wrong, as chances per request. `is_cut`: nobody hears us any more, as if the operator had been killed."""

    conflict: float = 0.0
    throttled: float = 0.0
    failing: float = 0.0
    failing_after_the_write: float = 0.0
    duplicates: float = 0.0
    is_cut: bool = False


@dataclass
class _Watcher:
    plural: str
    selector: str
    queue: asyncio.Queue[Change | None] = field(default_factory=asyncio.Queue)


class ApiServer:
    """Serves `objects`. An async context manager; `url` is where it listens."""

    def __init__(self, objects: Objects, *, chance: random.Random) -> None:
        self.objects = objects
        self.weather = Weather()
        self.url = ""
        self.faults = 0
        self._chance = chance
        self._watchers: list[_Watcher] = []
        self._oldest = 0
        self._runner: web.AppRunner | None = None
        objects.on_change.append(self._tell)

    async def __aenter__(self) -> Self:
        app = web.Application()
        app.router.add_get("/api", _json({"versions": ["v1"]}))
        app.router.add_get("/api/v1", _json({"resources": list(_resources(_CORE))}))
        app.router.add_get("/apis", _json({"groups": [_group(version) for version in _GROUPS]}))
        for version, kinds in _GROUPS.items():
            app.router.add_get(f"/apis/{version}", _json({"resources": list(_resources(kinds))}))
        app.router.add_route("*", "/{path:.*}", self._answer)
        self._runner = web.AppRunner(app, access_log=None, shutdown_timeout=0.1, keepalive_timeout=1e9)
        await self._runner.setup()
        site = web.TCPSite(self._runner, "127.0.0.1", 0)
        await site.start()
        self.url = f"http://127.0.0.1:{self._runner.addresses[0][1]}"
        return self

    async def __aexit__(self, *_: object) -> None:
        self.end_watches()
        if self._runner:
            await self._runner.cleanup()

    def end_watches(self) -> None:
        """All streams end, as they do now and then."""
        for watcher in self._watchers:
            watcher.queue.put_nowait(None)

    def forget_changes(self) -> None:
        """Versions up to now are too old to watch from: 410."""
        self._oldest = self.objects.version

    async def _answer(self, request: web.Request) -> web.StreamResponse:
        found = _PATH.match(request.path)
        if self.weather.is_cut or found is None:
            if request.transport:
                request.transport.close()
            return web.Response(status=503)
        fault = self._fault(request)
        if fault:
            self.faults += 1
            return fault
        where = found.groupdict(default="")
        try:
            if request.query.get("watch"):
                return await self._watch(request, where["plural"])
            body = self._do(request, where, await request.json() if request.can_read_body else {})
        except RefusedError as refused:
            return _failed(refused.status, str(refused))
        if request.method != "GET" and self._chance.random() < self.weather.failing_after_the_write:
            self.faults += 1
            return _failed(500, "the answer was lost, the write was not")
        return web.json_response(body)

    def _fault(self, request: web.Request) -> web.Response | None:
        weather, drawn = self.weather, self._chance.random()
        if drawn < weather.failing:
            return _failed(500, "etcdserver: leader changed")
        if drawn < weather.failing + weather.throttled:
            return _failed(429, "too many requests", {"Retry-After": "2"})
        is_write = request.method in {"PUT", "PATCH", "POST"}
        if is_write and drawn < weather.failing + weather.throttled + weather.conflict:
            return _failed(409, "the object has been modified")
        return None

    def _do(self, request: web.Request, where: dict[str, str], body: Object) -> Object:
        plural, namespace, name, objects = where["plural"], where["namespace"], where["name"], self.objects
        match request.method:
            case "GET" if name:
                return objects.get(plural, namespace, name)
            case "GET":
                items = objects.list(
                    plural, namespace=namespace or None, selector=request.query.get("labelSelector", "")
                )
                version = where["core"] or where["group"]
                return {"apiVersion": version, "metadata": {"resourceVersion": str(objects.version)}, "items": items}
            case "POST":
                return objects.create(plural, namespace, body)
            case "PUT" if where["part"] == "status":
                return objects.replace_status(plural, namespace, name, body)
            case "PATCH" if "apply-patch" in request.content_type:
                return objects.apply(plural, namespace, name, body)
            case "PATCH":
                return objects.merge(plural, namespace, name, body)
            case "DELETE":
                return objects.delete(plural, namespace, name)
        raise RefusedError(405, f"{request.method} {request.path}")

    async def _watch(self, request: web.Request, plural: str) -> web.StreamResponse:
        response = web.StreamResponse()
        await response.prepare(request)
        since = int(request.query.get("resourceVersion", "0"))
        if since < self._oldest:
            gone = {"kind": "Status", "code": 410, "reason": "Expired", "metadata": {}}
            await response.write(_line("ERROR", gone))
            return response
        watcher = _Watcher(plural, request.query.get("labelSelector", ""))
        for change in self.objects.log[plural]:
            if change.version > since:
                watcher.queue.put_nowait(change)
        self._watchers.append(watcher)
        try:
            while change_or_end := await watcher.queue.get():
                if not matches(change_or_end.object, watcher.selector):
                    continue
                line = _line(change_or_end.type, change_or_end.object)
                times = 2 if self._chance.random() < self.weather.duplicates else 1
                await response.write(line * times)
        except ConnectionError:
            pass  # the operator went away
        finally:
            self._watchers.remove(watcher)
        return response

    def _tell(self, plural: str, change: Change) -> None:
        for watcher in self._watchers:
            if watcher.plural == plural:
                watcher.queue.put_nowait(change)


def _line(type_: str, item: Object) -> bytes:
    return json.dumps({"type": type_, "object": item}).encode() + b"\n"


def _failed(status: int, message: str, headers: dict[str, str] | None = None) -> web.Response:
    body = {"kind": "Status", "status": "Failure", "code": status, "message": message}
    return web.json_response(body, status=status, headers=headers)


def _json(body: Object) -> Any:
    async def answer(_: web.Request) -> web.Response:
        return web.json_response(body)

    return answer


def _group(version: str) -> Object:
    name, _, number = version.partition("/")
    return {"name": name, "versions": [{"version": number}], "preferredVersion": {"version": number}}


def _resources(kinds: dict[str, str]) -> Iterator[Object]:
    verbs = ["get", "list", "watch", "patch", "create", "update", "delete"]
    for plural, kind in kinds.items():
        yield {"name": plural, "kind": kind, "singularName": kind.lower(), "namespaced": True, "verbs": verbs}
