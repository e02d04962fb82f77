"""Sizing in simulated time: Jobs come and go, the API server fails, and no pod starts before it is known to fit."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import replace
from datetime import UTC, datetime, timedelta

import pytest
from diffusion_operator.adapters import clock
from diffusion_operator.adapters.cluster import LiveChild
from diffusion_operator.adapters.errors import TransientError
from diffusion_operator.api.models import MeasuredMemory
from diffusion_operator.core.children import ChildKind
from diffusion_operator.core.sized.observation import ObservedInspection, ObservedNodes
from diffusion_operator.shell.loops import Loops
from diffusion_operator.shell.metrics import Metrics
from diffusion_operator.shell.reconcile import Reconciler

from tests.sim.fake_cluster import FakeCluster, FakeGateways
from tests.unit.operator.builders import SETTINGS
from tests.unit.sized.builders import DIFFUSION_GEMMA, FACTS, a_gpu_model, an_ar_twin, succeeded

pytestmark = pytest.mark.looptime

MODEL = a_gpu_model()
GEMMA = FACTS[DIFFUSION_GEMMA]


class FakeSizing:
    """Implements `SizingSource`. What Jobs find is by the source that they read."""

    def __init__(self) -> None:
        self.found: dict[str, ObservedInspection] = {}
        self.is_down = False
        self.questions = 0

    async def inspection(self, job: LiveChild, *, namespace: str, model: str) -> ObservedInspection:
        if self.is_down:
            raise TransientError("500")
        command = job.manifest["spec"]["template"]["spec"]["containers"][0]["command"]
        return self.found.get(command[2], ObservedInspection())

    async def nodes(self, selector: str) -> ObservedNodes:
        return ObservedNodes(why="no node")

    async def measured(self, namespace: str, *, model: str, revision: str) -> MeasuredMemory | None:
        self.questions += 1
        return MeasuredMemory(total=10**9)


@pytest.fixture(autouse=True)
def _both_clocks_are_simulated(monkeypatch: pytest.MonkeyPatch) -> None:
    def seconds() -> float:
        return asyncio.get_running_loop().time()

    monkeypatch.setattr(clock, "monotonic", seconds)
    # Whole seconds, as the real one.
    monkeypatch.setattr(clock, "now", lambda: datetime(2026, 1, 1, tzinfo=UTC) + timedelta(seconds=int(seconds())))


@asynccontextmanager
async def operator(cluster: FakeCluster, sizing: FakeSizing) -> AsyncIterator[Loops]:
    metrics = Metrics()
    reconciler = Reconciler(
        cluster=cluster,
        gateways=FakeGateways(),
        settings=replace(SETTINGS, sizing=True),
        metrics=metrics,
        sizing=sizing,
    )
    loops = Loops(reconciler, metrics)
    loops.wake_or_start("stories", "storyteller")
    try:
        yield loops
    finally:
        await loops.stop()


def kinds(cluster: FakeCluster) -> list[ChildKind]:
    return sorted({kind for kind, _ in cluster.objects})


async def test_pods_follow_jobs_through_a_server_that_fails() -> None:
    cluster, sizing = FakeCluster(MODEL), FakeSizing()
    async with operator(cluster, sizing) as loops:
        await asyncio.sleep(5)
        assert kinds(cluster) == [ChildKind.JOB]
        sizing.is_down = True
        sizing.found = {
            "file:///models/storyteller": succeeded(GEMMA),
            "file:///models/storyteller-ar": succeeded(an_ar_twin(GEMMA)),
        }
        loops.wake("stories", "storyteller")
        await asyncio.sleep(30)
        assert kinds(cluster) == [ChildKind.JOB]
        sizing.is_down = False
        await asyncio.sleep(120)
        assert kinds(cluster) == [ChildKind.CONFIG_MAP, ChildKind.DEPLOYMENT, ChildKind.SERVICE]
        cluster.ready = dict.fromkeys(cluster.revisions, 1)
        loops.wake("stories", "storyteller")
        await asyncio.sleep(700)
        assert sizing.questions == 2  # each arm's revision once
