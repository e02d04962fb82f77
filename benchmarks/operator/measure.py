"""From an empty cluster to figures, for one number of models."""

import asyncio
import json
import subprocess
import time
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from random import Random
from typing import Any

from benchmarks.errors import BenchmarkError
from benchmarks.measure import percentile
from benchmarks.operator.api import MERGE, Api, Change, Follower
from benchmarks.operator.contestants import NAMESPACE, Contestant, Stage
from benchmarks.operator.processes import Operator, answers
from benchmarks.progress import say
from cluster.controlplane import ControlPlane

_USER = "system:serviceaccount:default:diffusion-operator"
_REQUESTS_AT_ONCE = 8
_SERVED_SECONDS = 60.0
_SETTLE_SECONDS = 900.0
_QUIET_SECONDS = 5.0
_REACTION_SECONDS = 30.0
_BETWEEN_SECONDS = 1.0
_SCRAPE_SECONDS = 15.0  # as the chart's PodMonitors
_WRITES = frozenset({"create", "update", "patch", "delete", "deletecollection"})


@dataclass(frozen=True)
class Latency:
    """Of several reactions, in seconds."""

    median: float
    p95: float
    runs: int

    @classmethod
    def of(cls, seconds: list[float]) -> "Latency":
        """Summarize at least one."""
        return cls(percentile(seconds, 50), percentile(seconds, 95), len(seconds))


@dataclass(frozen=True)
class Figures:
    """What so many models cost. `settled_seconds` count from the first creation to the last status that was written for it."""

    models: int
    settled_seconds: float
    settling_cpu_seconds: float
    memory_mib: float
    peak_mib: float
    spec_change: Latency
    deleted_child: Latency
    idle_seconds: float
    idle_writes: int
    idle_cores: float
    kubectl_get: Latency


async def measure(contestant: Contestant, models: int, *, reactions: int, idle_seconds: float) -> Figures:
    """All figures, on a control plane of its own."""
    with ControlPlane() as plane:
        admin = plane.kubeconfig
        async with Api(admin) as api:
            await _prepare(api, admin, contestant)
            user = plane.kubeconfig_for(_USER, groups=["system:masters"])
            with contestant.started(admin, user) as operator:
                settled, settling_cpu = await _settle(api, operator, contestant, models)
                say(f"{models}: settled in {settled:.1f} s, {settling_cpu:.1f} s of CPU; {operator.cost()}")
                kubectl = Latency.of([_kubectl_get(admin, contestant.kind) for _ in range(5)])
                idle = await _idle(operator, plane.audit_log, seconds=idle_seconds)
                say(f"{models}: idle for {idle_seconds:.0f} s: {idle[0]} writes, {100 * idle[1]:.2f} % of a core")
                names = [f"model-{number}" for number in Random(models).choices(range(models), k=reactions)]
                deleted = Latency.of([await _delete_child(api, contestant, name) for name in names])
                changed = Latency.of([await _change_spec(api, contestant, name, at) for at, name in enumerate(names)])
                say(f"{models}: {changed}, {deleted}, {kubectl}")
                cost = operator.cost()
    return Figures(
        models=models,
        settled_seconds=settled,
        settling_cpu_seconds=settling_cpu,
        memory_mib=cost.memory_mib,
        peak_mib=cost.peak_mib,
        spec_change=changed,
        deleted_child=deleted,
        idle_seconds=idle_seconds,
        idle_writes=idle[0],
        idle_cores=idle[1],
        kubectl_get=kubectl,
    )


async def _prepare(api: Api, kubeconfig: Path, contestant: Contestant) -> None:
    """The CRDs, served, and a namespace."""
    create = ["kubectl", f"--kubeconfig={kubeconfig}", "create", *(f"--filename={crd}" for crd in contestant.crds())]
    await asyncio.to_thread(subprocess.run, create, check=True, capture_output=True)
    await api.request("POST", "/api/v1/namespaces", {"metadata": {"name": NAMESPACE}})
    deadline = time.monotonic() + _SERVED_SECONDS
    while True:
        try:
            await api.list(contestant.resources)
        except BenchmarkError:  # not served yet
            if time.monotonic() > deadline:
                raise
            await asyncio.sleep(0.2)
        else:
            return


async def _settle(api: Api, operator: Operator, contestant: Contestant, models: int) -> tuple[float, float]:
    """Create them all. Returns the seconds until the last was in mid-canary, and the operator's CPU seconds."""
    before = operator.cost().cpu_seconds
    async with Follower(api, contestant.resources) as follower:
        began = time.monotonic()
        for stage in contestant.stages:
            await _ask(api, contestant, stage, models)
            await _reach(follower, stage, models, until=began + _SETTLE_SECONDS)
        await follower.silence(_QUIET_SECONDS)
        return follower.changes[-1].at - began, operator.cost().cpu_seconds - before


async def _ask(api: Api, contestant: Contestant, stage: Stage, models: int) -> None:
    slots = asyncio.Semaphore(_REQUESTS_AT_ONCE)

    async def one(number: int) -> None:
        made = contestant.resource(number)
        async with slots:
            if stage.patch is None:
                await api.request("POST", contestant.resources, made)
            else:
                path = f"{contestant.resources}/{made['metadata']['name']}"
                await api.request("PATCH", path, stage.patch, content_type=MERGE)

    await asyncio.gather(*(one(number) for number in range(models)))


async def _reach(follower: Follower, stage: Stage, models: int, *, until: float) -> None:
    through: set[str] = set()
    seen = 0
    while len(through) < models:
        if time.monotonic() > until:
            raise BenchmarkError(f"{len(through)} of {models} are through a stage after {_SETTLE_SECONDS:.0f} s")
        await asyncio.sleep(0.2)
        through |= {
            change.object["metadata"]["name"]
            for change in islice(follower.changes, seen, None)
            if stage.is_reached(change)
        }
        seen = len(follower.changes)


async def _idle(operator: Operator, audit_log: Path, *, seconds: float) -> tuple[int, float]:
    """The operator's writes and the share of a core that it takes while only Prometheus wants something of it."""
    before, writes = operator.cost(), _writes(audit_log)
    until = time.monotonic() + seconds
    while (left := until - time.monotonic()) > 0:
        if not await asyncio.to_thread(answers, operator.metrics, "/metrics"):
            raise BenchmarkError("there is no answer at /metrics")
        await asyncio.sleep(min(left, _SCRAPE_SECONDS))
    after = operator.cost()
    return _writes(audit_log) - writes, (after.cpu_seconds - before.cpu_seconds) / seconds


def _writes(audit_log: Path) -> int:
    """The operator's writes so far, its Lease aside."""
    with audit_log.open("rb") as log:
        return sum(_is_write(json.loads(line)) for line in log if line.endswith(b"}\n"))


def _is_write(event: dict[str, Any]) -> bool:
    return (
        event["user"]["username"] == _USER
        and event["verb"] in _WRITES
        and event.get("objectRef", {}).get("resource") != "leases"
        and event["stage"] == "ResponseComplete"
    )


async def _change_spec(api: Api, contestant: Contestant, name: str, number: int) -> float:
    """Seconds from the request to the new revision's child."""
    async with Follower(api, contestant.children) as follower:
        began = time.monotonic()
        path = f"{contestant.resources}/{name}"
        await api.request("PATCH", path, contestant.changed(number), content_type=MERGE)
        return await _reaction(follower, contestant, name, began)


async def _delete_child(api: Api, contestant: Contestant, name: str) -> float:
    """Seconds from the request to the child that takes the place of the deleted one, which was the newest."""
    found, _ = await api.list(f"{contestant.children}?labelSelector={contestant.replaced(name)}")
    child = max(found, key=lambda item: str(item["metadata"]["creationTimestamp"]))["metadata"]["name"]
    async with Follower(api, contestant.children) as follower:
        began = time.monotonic()
        await api.request("DELETE", f"{contestant.children}/{child}")
        return await _reaction(follower, contestant, name, began)


async def _reaction(follower: Follower, contestant: Contestant, name: str, began: float) -> float:
    def is_new(change: Change) -> bool:
        return change.type == "ADDED" and contestant.of(change.object) == name

    made = await follower.first(is_new, what=name, seconds=_REACTION_SECONDS)
    await asyncio.sleep(_BETWEEN_SECONDS)
    return made.at - began


def _kubectl_get(kubeconfig: Path, kind: str) -> float:
    began = time.monotonic()
    subprocess.run(["kubectl", f"--kubeconfig={kubeconfig}", "get", kind, "-A"], check=True, capture_output=True)
    return time.monotonic() - began
