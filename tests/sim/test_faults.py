"""Loops and passes in simulated time, with an API server that fails: the end is the same as without faults."""

import asyncio
import random
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager

import pytest
from diffusion_operator.adapters import clock
from diffusion_operator.adapters.errors import AdapterError, ConflictError, InvalidError, TransientError
from diffusion_operator.api.models import DiffusionModel
from diffusion_operator.core.children import ChildKind
from diffusion_operator.core.observation import ObservedGateway
from diffusion_operator.shell.loops import Loops
from diffusion_operator.shell.metrics import Metrics
from diffusion_operator.shell.reconcile import Reconciler

from tests.sim.fake_cluster import FakeCluster, FakeGateways
from tests.unit.operator.builders import SETTINGS, a_model, ar, diffusion

pytestmark = pytest.mark.looptime

OLD = a_model(rollout={"initialPercent": 100})
NEW = a_model(rollout={"initialPercent": 100}, sampler={"maxDenoisingSteps": 9})


@pytest.fixture(autouse=True)
def _the_loops_clock_is_simulated(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(clock, "monotonic", lambda: asyncio.get_running_loop().time())


@asynccontextmanager
async def operator(cluster: FakeCluster, gateways: FakeGateways | None = None) -> AsyncIterator[Loops]:
    """An operator process; leaving the block is its end, at whatever it was doing."""
    metrics = Metrics()
    reconciler = Reconciler(cluster=cluster, gateways=gateways or FakeGateways(), settings=SETTINGS, metrics=metrics)
    loops = Loops(reconciler, metrics)
    loops.wake_or_start("stories", "storyteller")
    try:
        yield loops
    finally:
        await loops.stop()


async def pods_come_up(cluster: FakeCluster, loops: Loops, *, seconds: float = 60) -> None:
    """All pods become ready, and the operator has that long to notice."""
    cluster.ready = dict.fromkeys(cluster.revisions, 1)
    loops.wake("stories", "storyteller")
    await asyncio.sleep(seconds)


async def promote(cluster: FakeCluster, loops: Loops, changed: DiffusionModel | None = None) -> None:
    """From a spec to its revision at 100 percent."""
    if changed:
        cluster.change(changed)
        loops.wake("stories", "storyteller")
    await asyncio.sleep(60)
    await pods_come_up(cluster, loops)


async def test_without_faults_the_old_revision_is_replaced() -> None:
    cluster = FakeCluster(OLD)
    async with operator(cluster) as loops:
        await promote(cluster, loops)
        assert cluster.revisions == {ar(OLD), diffusion(OLD)}
        await promote(cluster, loops, NEW)
    assert cluster.revisions == {ar(NEW), diffusion(NEW)}
    assert [(arm.revision, arm.percent) for arm in cluster.arms] == [(diffusion(NEW), 100), (ar(NEW), 0)]


FAULTS: dict[str, Callable[[], AdapterError]] = {
    "409": lambda: ConflictError("409"),
    "500": lambda: TransientError("500"),
    "429": lambda: TransientError("429", retry_after_seconds=3),
    "422": lambda: InvalidError("422"),
}


@pytest.mark.parametrize("seed", range(5))
@pytest.mark.parametrize("fault", FAULTS.values(), ids=FAULTS.keys())
async def test_faults_change_nothing_about_the_end(fault: Callable[[], AdapterError], seed: int) -> None:
    chance = random.Random(seed)
    cluster = FakeCluster(OLD)
    async with operator(cluster) as loops:
        cluster.fault = lambda _: fault() if chance.random() < 0.2 else None
        await promote(cluster, loops)
        await promote(cluster, loops, NEW)
        cluster.fault = lambda _: None
        cluster.ready = dict.fromkeys(cluster.revisions, 1)
        await asyncio.sleep(3600)
    assert cluster.revisions == {ar(NEW), diffusion(NEW)}
    assert [(arm.revision, arm.percent) for arm in cluster.arms] == [(diffusion(NEW), 100), (ar(NEW), 0)]
    assert cluster.model is not None
    assert cluster.model.status.phase == "Serving"


@pytest.mark.parametrize("seed", range(10))
async def test_an_operator_that_dies_at_any_call_changes_nothing_about_the_end(seed: int) -> None:
    chance = random.Random(seed)
    cluster = FakeCluster(OLD)
    dying = asyncio.Event()

    def die(_: str) -> AdapterError | None:
        if chance.random() < 0.1:
            dying.set()
        return TransientError("dead") if dying.is_set() else None

    for spec in (None, NEW):
        if spec:
            cluster.change(spec)
        for _ in range(12):
            dying.clear()
            cluster.fault = die
            cluster.ready = dict.fromkeys(cluster.revisions, 1)
            async with operator(cluster):
                await asyncio.sleep(30)
        cluster.fault = lambda _: None
        for _ in range(2):
            cluster.ready = dict.fromkeys(cluster.revisions, 1)
            async with operator(cluster):
                await asyncio.sleep(30)
    assert cluster.revisions == {ar(NEW), diffusion(NEW)}
    assert [(arm.revision, arm.percent) for arm in cluster.arms] == [(diffusion(NEW), 100), (ar(NEW), 0)]


async def test_an_idle_day_has_no_write() -> None:
    cluster = FakeCluster(OLD)
    async with operator(cluster) as loops:
        await promote(cluster, loops)
        writes = cluster.writes
        await asyncio.sleep(24 * 3600)
        assert cluster.writes == writes


async def test_a_restart_writes_nothing() -> None:
    cluster = FakeCluster(OLD)
    async with operator(cluster) as loops:
        await promote(cluster, loops)
    writes = cluster.writes
    async with operator(cluster):
        await asyncio.sleep(60)
    assert cluster.writes == writes


@pytest.mark.parametrize("kind", [kind for kind in ChildKind if kind is not ChildKind.JOB])
async def test_a_child_that_vanished_unheard_comes_back_at_the_resync(kind: ChildKind) -> None:
    cluster = FakeCluster(OLD)
    async with operator(cluster) as loops:
        await promote(cluster, loops)
        key = next(key for key in cluster.objects if key[0] is kind)
        del cluster.objects[key]
        await asyncio.sleep(700)
        assert key in cluster.objects


async def test_a_gateway_that_lags_keeps_the_old_revisions_pods_alive() -> None:
    cluster, gateways = FakeCluster(OLD), FakeGateways()
    async with operator(cluster, gateways) as loops:
        await promote(cluster, loops)
        old_routes = cluster.model.status.routes.generation if cluster.model else 0
        gateways.pods = [
            ObservedGateway("g", answered=True, generation=old_routes, revisions=frozenset({diffusion(OLD), ar(OLD)}))
        ]
        await promote(cluster, loops, NEW)
        assert diffusion(OLD) in cluster.revisions
        assert cluster.arms[0].revision == diffusion(NEW)
        gateways.pods = [
            ObservedGateway(
                "g", answered=True, generation=old_routes + 1, revisions=frozenset({diffusion(NEW), ar(NEW)})
            )
        ]
        await asyncio.sleep(2)
        assert diffusion(OLD) not in cluster.revisions


async def test_events_that_cannot_be_written_stop_nothing() -> None:
    cluster = FakeCluster(OLD)
    cluster.fault = lambda what: TransientError("no events") if what == "record" else None
    async with operator(cluster) as loops:
        await promote(cluster, loops)
    assert cluster.arms[0].revision == diffusion(OLD)
    assert cluster.events == []
