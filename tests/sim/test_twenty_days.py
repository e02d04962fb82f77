"""Twenty days of a rollout on kopf's own loop, with everything going wrong that goes wrong in a cluster.

Real: the operator's whole process (`shell.process.run`) with kopf's watches, its HTTP connections, retries and timeouts, the
loops, the Lease, the health server, the default ladder of twenty steps of 24 hours. Simulated: time (looptime: the event
loop's clock, from which the operator's own clock is made), the API server (`days.server`, HTTP on loopback, with versions,
conflicts, watches and 410), pods and gateways. The metrics store is behind the `Metrics` protocol: queries to a real
Prometheus are tested in tests/prometheus. Against a real API server, in real time: tests/api, tests/e2e.

Slower than by default, for the sake of wall time: a look each hour instead of each five minutes, and a pass when nothing
happens; the Lease, the question for suspicious models and the one for endpoints each ten minutes. kopf's watches are renewed each six hours when nothing comes, as no bookmarks are sent.
"""

import asyncio
import contextlib
import random
from collections.abc import AsyncIterator, Iterator
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
import structlog
import yaml
from diffusion_operator.adapters import clock
from diffusion_operator.api import labels
from diffusion_operator.api.models import DiffusionModelStatus
from diffusion_operator.core.rollout import Pace, RolloutPhase
from diffusion_operator.shell import background, handlers, loops
from diffusion_operator.shell.settings import OperatorSettings

from tests.sim.days.fortune import HOUR, SMALL_JUMP, Fortune, WallClock
from tests.sim.days.life import Life
from tests.sim.days.objects import Change, Objects
from tests.sim.days.server import ApiServer
from tests.sim.days.surroundings import GatewayPod, PodsComeUp
from tests.sim.fake_metrics import FakeMetrics
from tests.unit.operator.builders import IMAGE

pytestmark = pytest.mark.looptime(noop_cycles=3)

START = datetime(2026, 1, 1, tzinfo=UTC)
DAY = 24 * HOUR
LOOK = HOUR
PACE = Pace(LOOK, longest_gap_seconds=4 * LOOK, checkpoint_seconds=8 * HOUR)
LADDER = list(range(5, 101, 5))
LONGEST_DAYS = 32


@dataclass
class Seen:
    """What became of the resource, in true time. `steps`: percent, when, and after how much good time."""

    life: Life
    steps: list[tuple[int, float, float]] = field(default_factory=list)
    phases: set[str] = field(default_factory=set)
    status: DiffusionModelStatus = field(default_factory=DiffusionModelStatus)

    def note(self, plural: str, change: Change) -> None:
        if plural != labels.PLURAL or "status" not in change.object:
            return
        self.status = DiffusionModelStatus.model_validate(change.object["status"])
        self.phases.add(self.status.rollout.phase)
        percent = self.status.rollout.canary_percent
        if percent != (self.steps[-1][0] if self.steps else 0):
            self.steps.append((percent, asyncio.get_running_loop().time(), self.life.good_seconds()))

    @property
    def is_at_the_end(self) -> bool:
        return self.status.rollout.phase is RolloutPhase.PROMOTED and self.status.phase == "Serving"


@pytest.fixture
def wall(monkeypatch: pytest.MonkeyPatch) -> WallClock:
    """All clocks of the operator are simulated; the one on the wall may be wrong."""
    made = WallClock()
    monkeypatch.setattr(clock, "monotonic", lambda: asyncio.get_running_loop().time())
    monkeypatch.setattr(
        clock, "now", lambda: START + timedelta(seconds=round(asyncio.get_running_loop().time())) + made.ahead
    )
    return made


@pytest.fixture(autouse=True)
def _slower_and_quieter(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.setattr(loops, "RESYNC_SECONDS", HOUR)
    monkeypatch.setattr(background, "RENEW_SECONDS", 600.0)
    monkeypatch.setattr(background, "_SUSPICION_SECONDS", 600.0)
    monkeypatch.setattr(background, "_ENDPOINTS_SECONDS", 600.0)
    settings = handlers.settings()
    settings.watching.inactivity_timeout = 6 * HOUR
    # Ten minutes after an operator ends kopf kills the process that it was in: here, the tests.
    settings.process.ultimate_exiting_timeout = None
    monkeypatch.setattr(handlers, "settings", lambda: settings)
    structlog.configure(processors=[_drop])
    yield
    structlog.reset_defaults()


def _drop(*_: object) -> dict[str, object]:
    raise structlog.DropEvent


@contextlib.asynccontextmanager
async def cluster(folder: Path, wall: WallClock, *, seed: int | None) -> AsyncIterator[tuple[Seen, Fortune, Objects]]:
    """A cluster with one resource and an operator. Without a seed nothing ever goes wrong."""
    chance = random.Random(seed)
    objects = Objects()
    PodsComeUp(objects, chance=chance)
    async with contextlib.AsyncExitStack() as stack:
        for name in ("gateway-a", "gateway-b"):
            pod = GatewayPod(objects, name=name, namespace="operator", service="gateway", chance=chance)
            await stack.enter_async_context(pod)
        api = await stack.enter_async_context(ApiServer(objects, chance=chance))
        settings = OperatorSettings(
            worker_image=IMAGE,
            namespace="operator",
            gateway_service="gateway",
            gateway_url="http://gateway:8080/v1",
            kubeconfig=_kubeconfig(folder, api.url),
            port=0,
            sizing=False,
        )
        life = Life(settings, api=api, store=FakeMetrics(), pace=PACE, chance=chance)
        seen = Seen(life)
        objects.on_change.append(seen.note)
        objects.create(labels.PLURAL, "stories", _resource())
        fortune = Fortune(api=api, life=life, wall=wall, chance=chance)
        tasks = [asyncio.create_task(life.run())]
        if seed is not None:
            tasks.append(asyncio.create_task(fortune.run()))
        try:
            yield seen, fortune, objects
        finally:
            for task in reversed(tasks):
                task.cancel()
                await asyncio.gather(task, return_exceptions=True)


def _kubeconfig(folder: Path, url: str) -> str:
    path = folder / "kubeconfig"
    document = {
        "apiVersion": "v1",
        "kind": "Config",
        "clusters": [{"name": "sim", "cluster": {"server": url}}],
        "users": [{"name": "sim", "user": {"token": "any"}}],
        "contexts": [{"name": "sim", "context": {"cluster": "sim", "user": "sim"}}],
        "current-context": "sim",
    }
    path.write_text(yaml.safe_dump(document))
    return str(path)


def _resource() -> dict[str, object]:
    return {
        "apiVersion": labels.API_VERSION,
        "kind": labels.KIND,
        "metadata": {"name": "storyteller"},
        "spec": {
            "model": {"source": "file:///models/storyteller"},
            "fallback": {"model": {"source": "file:///models/storyteller-ar"}},
        },
    }


@pytest.mark.parametrize("seed", [None, 1, 2], ids=["nothing goes wrong", "seed 1", "seed 2"])
async def test_the_end_is_the_same_whatever_goes_wrong(
    tmp_path: Path, wall: WallClock, monkeypatch: pytest.MonkeyPatch, seed: int | None
) -> None:
    monkeypatch.setenv("KUBECONFIG", "put back after the test")
    async with cluster(tmp_path, wall, seed=seed) as (seen, fortune, objects):
        for _ in range(LONGEST_DAYS):
            await asyncio.sleep(DAY)
            if seen.is_at_the_end:
                break
        status = seen.status

        assert [percent for percent, _, _ in seen.steps] == [*LADDER, 0], "one step after the other, none left out"
        assert (status.phase, status.rollout.phase) == ("Serving", RolloutPhase.PROMOTED)
        assert [(arm.role, arm.kind, arm.percent) for arm in status.routes.arms] == [
            ("stable", "diffusion", 100),
            ("fallback", "ar", 0),
        ]
        assert {change.reason for change in status.rollout.history} <= {"Started", "GatesPass"}
        assert RolloutPhase.ROLLED_BACK not in seen.phases
        arms = {f"storyteller-{arm.revision}" for arm in status.routes.arms}
        for plural in ("deployments", "services", "configmaps"):
            assert {item["metadata"]["name"] for item in objects.list(plural, namespace="stories", selector="")} == arms
        observed = [after - before for (_, _, before), (_, _, after) in zip(seen.steps, seen.steps[1:], strict=False)]
        # What begins and ends between two looks, such as a short outage of metrics, is not seen: up to a look counts too much.
        assert min(observed) >= DAY - (4 * SMALL_JUMP if seed is None else LOOK), "never before the whole observed time"
        if seed is None:
            assert max(observed) <= DAY + 2 * LOOK
        else:
            assert min(fortune.suffered.values()) >= 3, "each kind of trouble came several times"
            assert {"killed", "stopped"} <= set(seen.life.ends)
