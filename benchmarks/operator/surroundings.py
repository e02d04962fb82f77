"""What the operator needs around it, in one process of its own: `python -m benchmarks.operator.surroundings KUBECONFIG`.

There are no nodes. Pods of a Deployment are said to be ready as soon as it is there, and a stub answers the operator's queries to
Prometheus with as many rows as two gateway pods would give, for revisions that pass every gate. A line with its port is printed.
"""

import asyncio
import json
import re
import sys
from contextlib import suppress
from pathlib import Path
from typing import Any

from aiohttp import web
from diffusion_operator.adapters.prometheus.evidence import LENGTHS
from diffusion_operator.adapters.prometheus.families import LATENCY, OF_A_PAIR, PAIRS, REPETITION, SPEED, Family
from diffusion_operator.adapters.prometheus.queries import Asked, Function, Span
from diffusion_operator.api import labels

from benchmarks.operator.api import MERGE, Api

_SELECTOR = f"labelSelector={labels.MANAGED_BY}%3D{labels.MANAGED_BY_VALUE}"
_DEPLOYMENTS = f"/apis/apps/v1/deployments?{_SELECTOR}"
_PODS = ("gateway-0", "gateway-1")
_BOUNDS = (0.02, 0.05, 0.1, 0.2, 0.3, 0.4, 0.5, 0.75, 1, 1.5, 2.5, 5, 10, 30, "+Inf")
_COUNT = 10_000.0
_WRITES_AT_ONCE = 8
_REVISION = re.compile(r'revision="([0-9a-f]{8})"')
_AR = re.compile(r'ar_revision="([0-9a-f]{8})"')


async def main(kubeconfig: Path) -> None:
    """Until the input is closed."""
    async with Api(kubeconfig) as api:
        app = web.Application()
        app.router.add_post("/api/v1/query", _query)
        runner = web.AppRunner(app, access_log=None)
        await runner.setup()
        site = web.TCPSite(runner, "127.0.0.1", 0)
        await site.start()
        print(json.dumps({"port": runner.addresses[0][1]}), flush=True)  # noqa: T201
        tasks = [asyncio.create_task(_make_ready(api))]
        closed = asyncio.get_running_loop().run_in_executor(None, sys.stdin.read)
        await asyncio.wait([*tasks, asyncio.ensure_future(closed)], return_when=asyncio.FIRST_COMPLETED)
        for task in tasks:
            if task.done():
                task.result()
            task.cancel()
        await runner.cleanup()


async def _make_ready(api: Api) -> None:
    slots = asyncio.Semaphore(_WRITES_AT_ONCE)
    writes: set[asyncio.Task[None]] = set()
    found, version = await api.list(_DEPLOYMENTS)
    for item in found:
        await _ready(api, item)

    async def later(item: dict[str, Any]) -> None:
        async with slots:
            await _ready(api, item)

    async for change in api.watch(_DEPLOYMENTS, since=version):
        if change.type != "DELETED":
            task = asyncio.create_task(later(change.object))
            writes.add(task)
            task.add_done_callback(writes.discard)


async def _ready(api: Api, item: dict[str, Any]) -> None:
    metadata, status = item["metadata"], item.get("status", {})
    if status.get("observedGeneration") == metadata["generation"]:
        return
    pods = item["spec"].get("replicas", 1)
    said = {"observedGeneration": metadata["generation"], "replicas": pods, "readyReplicas": pods}
    path = f"/apis/apps/v1/namespaces/{metadata['namespace']}/deployments/{metadata['name']}/status"
    with suppress(Exception):  # it is gone again
        await api.request("PATCH", path, {"status": said}, content_type=MERGE)


async def _query(request: web.Request) -> web.Response:
    asked = await request.post()
    query = str(asked["query"])
    revision, ar = _REVISION.search(query), _AR.search(query)
    if not revision or not ar:
        return _answer("")  # who looks suspicious: nobody
    return _answer(_ROWS.replace("@REVISION", revision[1]).replace("@AR", ar[1]))


def _answer(rows: str) -> web.Response:
    text = f'{{"status":"success","data":{{"resultType":"vector","result":[{rows}]}}}}'
    return web.Response(text=text, content_type="application/json")


def _rows() -> str:
    """Everything that a window's query asks for, of two pods."""
    rows = []
    for pod in _PODS:
        for span in Span:
            families = SPEED if span is Span.GUARD else (*SPEED, *REPETITION, *PAIRS)
            for family in families:
                rows += [_row(pod, span, family, **one) for one in _series(family)]
        rows.append(_row(pod, Span.STEP, Family.REQUESTS, value=_COUNT, function=Function.NOW))
    return ",".join(rows)


def _series(family: Family) -> list[dict[str, Any]]:
    if family is Family.FIRST_TOKEN:
        return [{"le": str(bound), "value": _COUNT} for bound in _BOUNDS]
    if family in LATENCY:
        mean = {Family.ANSWERS: 1.0, Family.ANSWER_SECONDS: 0.2, Family.ANSWER_SECONDS_SQUARED: 0.05}[family]
        of_ar = {Family.ANSWERS: 1.0, Family.ANSWER_SECONDS: 1.0, Family.ANSWER_SECONDS_SQUARED: 1.1}[family]
        arms = (("@REVISION", "canary", mean), ("@AR", "stable", of_ar))
        return [
            {"length": length, "revision": revision, "arm": arm, "value": _COUNT * each}
            for length in LENGTHS
            for revision, arm, each in arms
        ]
    if family in OF_A_PAIR:
        return [{"value": _COUNT * {Family.PAIRS: 1.0, Family.NLL_SQUARED: 0.1}.get(family, 0.1)}]
    return [{"value": 0.0 if family in {Family.FAILED, Family.REPEATING} else _COUNT}]


def _row(pod: str, span: Span, family: Family, *, value: float, function: Function = Function.RISE, **more: str) -> str:
    metric = {"instance": f"{pod}:8080", "pod": pod, "arm": "canary", "revision": "@REVISION", **more}
    metric["asked"] = str(Asked(family, span, function))
    return json.dumps({"metric": metric, "value": [0, str(value)]}, separators=(",", ":"))


_ROWS = _rows()

if __name__ == "__main__":
    asyncio.run(main(Path(sys.argv[1])))
