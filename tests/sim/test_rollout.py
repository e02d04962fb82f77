"""A rollout in simulated time: loops, passes and metrics as they run, the API server and the metrics store in memory."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from diffusion_operator.adapters import clock
from diffusion_operator.adapters.lease import Alive
from diffusion_operator.api import labels
from diffusion_operator.api.models import ArmKind, ArmRole
from diffusion_operator.core.children import ChildKind
from diffusion_operator.core.rollout import RolloutPhase
from diffusion_operator.shell.crashes import CrashLog
from diffusion_operator.shell.loops import Loops
from diffusion_operator.shell.measuring import Measuring
from diffusion_operator.shell.metrics import Metrics
from diffusion_operator.shell.reconcile import Reconciler

from tests.sim.fake_cluster import FakeCluster, FakeGateways
from tests.sim.fake_metrics import FakeMetrics
from tests.unit.operator.builders import SETTINGS, a_model, diffusion

pytestmark = pytest.mark.looptime

START = datetime(2026, 1, 1, tzinfo=UTC)
PART = 150.0  # a 24th of a step
LADDER = {"initialPercent": 50, "stepPercent": 50}
MODEL = a_model(rollout={**LADDER, "stepDuration": "1h"})


@pytest.fixture(autouse=True)
def _all_clocks_are_simulated(monkeypatch: pytest.MonkeyPatch) -> None:
    def elapsed() -> float:
        return asyncio.get_running_loop().time()

    monkeypatch.setattr(clock, "monotonic", elapsed)
    monkeypatch.setattr(clock, "now", lambda: START + timedelta(seconds=round(elapsed())))


@asynccontextmanager
async def operator(
    cluster: FakeCluster, store: FakeMetrics, *, earlier: Alive | None = None, crashes: CrashLog | None = None
) -> AsyncIterator[Loops]:
    metrics = Metrics()
    reconciler = Reconciler(
        cluster=cluster,
        gateways=FakeGateways(),
        settings=SETTINGS,
        metrics=metrics,
        measuring=Measuring(store),
        crashes=crashes,
        earlier=earlier,
    )
    loops = Loops(reconciler, metrics)
    loops.wake_or_start("stories", "storyteller")
    try:
        yield loops
    finally:
        await loops.stop()


async def start(cluster: FakeCluster, loops: Loops) -> None:
    """All pods come up, and the first weight is in force."""
    await asyncio.sleep(10)
    cluster.ready = dict.fromkeys(cluster.revisions, 1)
    loops.wake("stories", "storyteller")
    await asyncio.sleep(10)


def weight(cluster: FakeCluster) -> int:
    return next((arm.percent for arm in cluster.arms if arm.revision == diffusion(MODEL)), 0)


def phase(cluster: FakeCluster) -> RolloutPhase:
    assert cluster.model is not None
    return cluster.model.status.rollout.phase


def ask(cluster: FakeCluster, command: str) -> None:
    assert cluster.model is not None
    metadata = cluster.model.metadata.model_copy(update={"annotations": {labels.ROLLOUT_COMMAND: command}})
    cluster.model = cluster.model.model_copy(update={"metadata": metadata})


def crashed_pod(revision: str, *, uid: str) -> dict[str, Any]:
    """A pod whose container ended by itself just now and runs again."""
    end = {"terminated": {"exitCode": 1, "reason": "Error", "finishedAt": clock.now().isoformat()}}
    return {
        "metadata": {"uid": uid, "labels": {labels.MODEL: "storyteller", labels.REVISION: revision}},
        "status": {
            "containerStatuses": [
                {"name": "worker", "ready": True, "restartCount": 1, "state": {"running": {}}, "lastState": end}
            ]
        },
    }


async def test_a_good_revision_climbs_to_the_top_one_step_after_the_other() -> None:
    cluster = FakeCluster(MODEL)
    async with operator(cluster, FakeMetrics()) as loops:
        await start(cluster, loops)
        seen = []
        for _ in range(50):
            seen.append(weight(cluster))
            await asyncio.sleep(PART)
        assert (24 <= seen.count(50) <= 25, seen.count(0), seen[-1]) == (True, 0, 100)
        assert phase(cluster) is RolloutPhase.PROMOTED
    reasons = [event.reason for event in cluster.events]
    assert reasons.count("StepUp") == reasons.count("Promoted") == 1


async def test_ar_serves_the_rest_and_is_the_fallback_for_the_whole_climb() -> None:
    cluster, seen = FakeCluster(a_model(rollout={**LADDER, "stepDuration": "1m"})), set()
    async with operator(cluster, FakeMetrics()) as loops:
        await start(cluster, loops)
        for _ in range(150):
            await asyncio.sleep(1)
            shares = {(arm.role, arm.kind): arm.percent for arm in cluster.arms}
            assert shares[ArmRole.FALLBACK, ArmKind.AR] == 0
            assert shares.get((ArmRole.STABLE, ArmKind.AR), 0) == 100 - weight(cluster)
            seen.add(weight(cluster))
    assert seen == {50, 100}


async def test_a_revision_that_is_retried_is_not_judged_by_what_it_was_rolled_back_for() -> None:
    cluster, crashes = FakeCluster(MODEL), CrashLog()
    async with operator(cluster, FakeMetrics(), crashes=crashes) as loops:
        await start(cluster, loops)
        for uid in ("1", "2"):
            crashes.note("stories", crashed_pod(diffusion(MODEL), uid=uid))
        loops.wake("stories", "storyteller")
        await asyncio.sleep(5)
        assert phase(cluster) is RolloutPhase.ROLLED_BACK
        ask(cluster, "retry:1")
        loops.wake("stories", "storyteller")
        await asyncio.sleep(PART)
        assert (weight(cluster), phase(cluster)) == (50, RolloutPhase.OBSERVING)


async def test_a_revision_that_repeats_itself_is_rolled_back_at_its_first_weight() -> None:
    cluster = FakeCluster(MODEL)
    async with operator(cluster, FakeMetrics(repetition=0.3)) as loops:
        await start(cluster, loops)
        await asyncio.sleep(60)
        assert weight(cluster) == 0
        assert phase(cluster) is RolloutPhase.ROLLED_BACK
        await asyncio.sleep(100 * PART)
        assert weight(cluster) == 0


async def test_time_without_metrics_does_not_count_and_is_told() -> None:
    cluster, store = FakeCluster(MODEL), FakeMetrics()
    async with operator(cluster, store) as loops:
        await start(cluster, loops)
        await asyncio.sleep(12 * PART)
        store.is_down = True
        await asyncio.sleep(24 * PART)
        assert (weight(cluster), phase(cluster)) == (50, RolloutPhase.HELD)
        store.is_down = False
        await asyncio.sleep(11 * PART)
        assert (weight(cluster), phase(cluster)) == (50, RolloutPhase.OBSERVING)
        await asyncio.sleep(2 * PART)
        assert weight(cluster) == 100


async def test_a_metrics_store_that_hangs_delays_no_repair() -> None:
    cluster, store = FakeCluster(MODEL), FakeMetrics()
    async with operator(cluster, store) as loops:
        await start(cluster, loops)
        store.hangs = True
        await asyncio.sleep(301)
        key = next(key for key in cluster.objects if key[0] is ChildKind.DEPLOYMENT)
        del cluster.objects[key]
        loops.wake("stories", "storyteller")
        await asyncio.sleep(0.01)
        assert key in cluster.objects


async def test_restarts_lose_no_observed_time_but_their_own() -> None:
    cluster, store = FakeCluster(MODEL), FakeMetrics()
    earlier = None
    for _ in range(8):  # a quarter of a step each, with a minute in between
        begun = clock.now()
        async with operator(cluster, store, earlier=earlier) as loops:
            await start(cluster, loops)
            await asyncio.sleep(6 * PART)
        earlier = Alive(begun, clock.now())
        await asyncio.sleep(60)
    # Four lives make a step but for their starts: the fifth ends it, and not before.
    assert cluster.model is not None
    steps = [change.at - START for change in cluster.model.status.rollout.history if change.reason == "GatesPass"]
    assert timedelta(hours=1) <= steps[0] <= timedelta(hours=1, minutes=10)


async def test_idle_minutes_of_a_climbing_model_write_nothing() -> None:
    cluster, store = FakeCluster(a_model(rollout={**LADDER, "stepDuration": "24h"})), FakeMetrics()
    async with operator(cluster, store) as loops:
        await start(cluster, loops)
        writes, readings = cluster.writes, store.readings_made
        await asyncio.sleep(612)  # looks that are far off are made together with others: up to 4 s late
        assert cluster.writes == writes
        assert store.readings_made - readings == 2, "a look each five minutes"


async def test_a_loop_that_is_woken_early_reads_no_metrics() -> None:
    cluster, store = FakeCluster(MODEL), FakeMetrics()
    async with operator(cluster, store) as loops:
        await start(cluster, loops)
        readings = store.readings_made
        for _ in range(20):
            loops.wake("stories", "storyteller")
            await asyncio.sleep(1)
        assert store.readings_made == readings


async def test_a_model_that_looks_bad_is_looked_at_before_its_time() -> None:
    cluster, store = FakeCluster(MODEL), FakeMetrics()
    async with operator(cluster, store) as loops:
        await start(cluster, loops)
        store.repetition = 0.5
        loops.look_soon([("stories", "storyteller")])
        await asyncio.sleep(5)
        assert weight(cluster) == 0


async def test_a_person_steers_by_annotation() -> None:
    cluster, store = FakeCluster(MODEL), FakeMetrics()
    async with operator(cluster, store) as loops:
        await start(cluster, loops)
        ask(cluster, "promote:1")
        loops.wake("stories", "storyteller")
        await asyncio.sleep(5)
        assert weight(cluster) == 100
        await asyncio.sleep(PART)
        assert phase(cluster) is RolloutPhase.OBSERVING
