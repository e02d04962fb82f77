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

from diffusion_operator.api import labels
from diffusion_operator.api.crd import CRD_PATH

from benchmarks.errors import BenchmarkError
from benchmarks.machine import REPOSITORY
from benchmarks.measure import percentile
from benchmarks.operator.api import MERGE, Api, Change, Follower, labels_of
from benchmarks.operator.processes import Operator, started
from benchmarks.progress import say
from cluster.controlplane import ControlPlane

_USER = "system:serviceaccount:default:diffusion-operator"
_NAMESPACE = "bench"
_MODELS = f"/apis/{labels.API_VERSION}/namespaces/{_NAMESPACE}/{labels.PLURAL}"
_DEPLOYMENTS = f"/apis/apps/v1/namespaces/{_NAMESPACE}/deployments"
_CREATIONS_AT_ONCE = 8
_SERVED_SECONDS = 60.0
_SETTLE_SECONDS = 600.0
_QUIET_SECONDS = 5.0
_REACTION_SECONDS = 30.0
_BETWEEN_SECONDS = 1.0
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


async def measure(models: int, *, reactions: int, idle_seconds: float) -> Figures:
    """All figures, on a control plane of its own."""
    with ControlPlane() as plane:
        admin = plane.kubeconfig
        async with Api(admin) as api:
            await _prepare(api, admin)
            user = plane.kubeconfig_for(_USER, groups=["system:masters"])
            with started(admin=admin, operator=user) as operator:
                settled, settling_cpu = await _settle(api, operator, models)
                say(f"{models}: settled in {settled:.1f} s, {settling_cpu:.1f} s of CPU; {operator.cost()}")
                kubectl = Latency.of([_kubectl_get(admin) for _ in range(5)])
                idle = await _idle(operator, plane.audit_log, seconds=idle_seconds)
                say(f"{models}: idle for {idle_seconds:.0f} s: {idle[0]} writes, {100 * idle[1]:.2f} % of a core")
                names = [f"model-{number}" for number in Random(models).choices(range(models), k=reactions)]
                deleted = Latency.of([await _delete_child(api, name) for name in names])
                changed = Latency.of([await _change_spec(api, name, at) for at, name in enumerate(names)])
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


async def _prepare(api: Api, kubeconfig: Path) -> None:
    """The CRD, served, and a namespace."""
    create = ["kubectl", f"--kubeconfig={kubeconfig}", "create", "-f", str(REPOSITORY / CRD_PATH)]
    await asyncio.to_thread(subprocess.run, create, check=True, capture_output=True)
    await api.request("POST", "/api/v1/namespaces", {"metadata": {"name": _NAMESPACE}})
    deadline = time.monotonic() + _SERVED_SECONDS
    while True:
        try:
            await api.list(_MODELS)
        except BenchmarkError:  # not served yet
            if time.monotonic() > deadline:
                raise
            await asyncio.sleep(0.2)
        else:
            return


async def _settle(api: Api, operator: Operator, models: int) -> tuple[float, float]:
    """Create them all. Returns the seconds until the last was in mid-canary, and the operator's CPU seconds."""
    before = operator.cost().cpu_seconds
    slots = asyncio.Semaphore(_CREATIONS_AT_ONCE)

    async def create(number: int) -> None:
        async with slots:
            await api.request("POST", _MODELS, _resource(number))

    async with Follower(api, _MODELS) as follower:
        began = time.monotonic()
        await asyncio.gather(*(create(number) for number in range(models)))
        deadline = began + _SETTLE_SECONDS
        climbing: set[str] = set()
        seen = 0
        while len(climbing) < models or time.monotonic() - follower.changes[-1].at < _QUIET_SECONDS:
            if time.monotonic() > deadline:
                raise BenchmarkError(
                    f"{len(climbing)} of {models} models are in mid-canary after {_SETTLE_SECONDS:.0f} s"
                )
            await asyncio.sleep(0.2)
            climbing |= {
                change.object["metadata"]["name"]
                for change in islice(follower.changes, seen, None)
                if _is_in_mid_canary(change)
            }
            seen = len(follower.changes)
        return follower.changes[-1].at - began, operator.cost().cpu_seconds - before


def _is_in_mid_canary(change: Change) -> bool:
    """At the first weight, and its time has begun to count."""
    rollout = change.object.get("status", {}).get("rollout", {})
    return bool(rollout.get("canaryPercent") == 5 and (rollout.get("canary") or {}).get("isObserving"))


async def _idle(operator: Operator, audit_log: Path, *, seconds: float) -> tuple[int, float]:
    """The operator's writes and the share of a core that it takes while nobody does anything."""
    before, writes = operator.cost(), _writes(audit_log)
    await asyncio.sleep(seconds)
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


async def _change_spec(api: Api, name: str, number: int) -> float:
    """Seconds from the request to the new revision's Deployment."""
    async with Follower(api, _DEPLOYMENTS) as follower:
        began = time.monotonic()
        change = {"spec": {"sampler": {"maxDenoisingSteps": 5 + number}}}
        await api.request("PATCH", f"{_MODELS}/{name}", change, content_type=MERGE)
        made = await follower.first(lambda change: _is_new(change, name), what=name, seconds=_REACTION_SECONDS)
    await asyncio.sleep(_BETWEEN_SECONDS)
    return made.at - began


async def _delete_child(api: Api, name: str) -> float:
    """Seconds from the request to the Deployment that takes the place of the deleted one."""
    selector = f"?labelSelector={labels.MODEL}%3D{name},{labels.ARM_KIND}%3Ddiffusion"
    found, _ = await api.list(f"{_DEPLOYMENTS}{selector}")
    child = found[0]["metadata"]["name"]
    async with Follower(api, _DEPLOYMENTS) as follower:
        began = time.monotonic()
        await api.request("DELETE", f"{_DEPLOYMENTS}/{child}")
        made = await follower.first(lambda change: _is_new(change, name), what=name, seconds=_REACTION_SECONDS)
    await asyncio.sleep(_BETWEEN_SECONDS)
    return made.at - began


def _is_new(change: Change, model: str) -> bool:
    return change.type == "ADDED" and labels_of(change.object).get(labels.MODEL) == model


def _kubectl_get(kubeconfig: Path) -> float:
    began = time.monotonic()
    subprocess.run(["kubectl", f"--kubeconfig={kubeconfig}", "get", "dm", "-A"], check=True, capture_output=True)
    return time.monotonic() - began


def _resource(number: int) -> dict[str, Any]:
    return {
        "apiVersion": labels.API_VERSION,
        "kind": labels.KIND,
        "metadata": {"name": f"model-{number}"},
        "spec": {
            "model": {"source": f"file:///models/{number}"},
            "fallback": {"model": {"source": f"file:///models/{number}-ar"}},
        },
    }
