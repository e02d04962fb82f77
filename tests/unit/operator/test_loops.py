"""Loops: when they pass again, and that none harms another."""

import asyncio

import pytest
from diffusion_operator.adapters import clock
from diffusion_operator.adapters.errors import ConflictError, InvalidError, TransientError
from diffusion_operator.adapters.own_writes import OwnWrites, Version
from diffusion_operator.api.models import Phase
from diffusion_operator.shell.loops import RESYNC_SECONDS, Loops
from diffusion_operator.shell.measuring import Memory
from diffusion_operator.shell.metrics import Metrics
from diffusion_operator.shell.reconcile import Passed, Reconciler

SERVING = Passed(phase=Phase.SERVING)
GONE = Passed(phase=None)


class Scripted(Reconciler):
    """Plays a script of results and errors; the last one repeats. Notes when each pass was made, in the loop's time."""

    def __init__(self, *script: Passed | Exception) -> None:
        self.script = list(script)
        self.times: list[float] = []
        self.rejections: list[str] = []

    async def run_once(self, namespace: str, name: str, *, memory: Memory, rejected: str = "") -> Passed:
        self.times.append(asyncio.get_running_loop().time())
        self.rejections.append(rejected)
        result = self.script.pop(0) if len(self.script) > 1 else self.script[0]
        if isinstance(result, Exception):
            raise result
        return result

    def pauses(self) -> list[float]:
        return [after - before for before, after in zip(self.times, self.times[1:], strict=False)]


@pytest.fixture(autouse=True)
def _the_loops_clock_is_simulated(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(clock, "monotonic", lambda: asyncio.get_running_loop().time())


def running(reconciler: Scripted) -> Loops:
    loops = Loops(reconciler, Metrics())
    loops.wake_or_start("stories", "storyteller")
    return loops


@pytest.mark.looptime
async def test_a_quiet_resource_is_looked_at_every_ten_minutes_or_so() -> None:
    reconciler = Scripted(SERVING)
    loops = running(reconciler)
    await asyncio.sleep(3600)
    await loops.stop()
    assert all(0.9 * RESYNC_SECONDS <= pause <= 1.1 * RESYNC_SECONDS for pause in reconciler.pauses())


@pytest.mark.looptime
async def test_a_change_is_acted_on_at_once() -> None:
    reconciler = Scripted(SERVING)
    loops = running(reconciler)
    await asyncio.sleep(10)
    loops.wake("stories", "storyteller")
    await asyncio.sleep(1)
    await loops.stop()
    assert len(reconciler.times) == 2
    assert reconciler.pauses() == [pytest.approx(10, abs=0.1)]


@pytest.mark.looptime
@pytest.mark.parametrize("told", [("uid", "7"), None])
async def test_what_we_wrote_ourselves_is_no_news(told: Version | None) -> None:
    reconciler, own_writes = Scripted(SERVING), OwnWrites()
    loops = Loops(reconciler, Metrics(), own_writes=own_writes)
    loops.wake_or_start("stories", "storyteller")
    await asyncio.sleep(10)
    own_writes.note({"uid": "uid", "resourceVersion": "7"})
    loops.wake("stories", "storyteller", version=told)
    await asyncio.sleep(10)
    await loops.stop()
    assert len(reconciler.times) == (1 if told else 2)


@pytest.mark.looptime
async def test_a_change_by_others_behind_one_of_ours_is_news() -> None:
    reconciler, own_writes = Scripted(SERVING), OwnWrites()
    loops = Loops(reconciler, Metrics(), own_writes=own_writes)
    loops.wake_or_start("stories", "storyteller")
    await asyncio.sleep(10)
    own_writes.note({"uid": "uid", "resourceVersion": "7"})
    for version in ("7", "8"):
        loops.wake("stories", "storyteller", version=("uid", version))
    await asyncio.sleep(10)
    await loops.stop()
    assert len(reconciler.times) == 2


@pytest.mark.looptime
async def test_a_change_of_an_unknown_resources_child_starts_nothing() -> None:
    loops = Loops(Scripted(SERVING), Metrics())
    loops.wake("stories", "unknown")
    await asyncio.sleep(1)
    assert loops.overdue() == []
    await loops.stop()


@pytest.mark.looptime
async def test_it_looks_again_when_the_decision_says_so() -> None:
    reconciler = Scripted(Passed(phase=Phase.PROGRESSING, look_again_seconds=1.0), SERVING)
    loops = running(reconciler)
    await asyncio.sleep(5)
    await loops.stop()
    assert reconciler.pauses() == [pytest.approx(1.0)]


@pytest.mark.looptime
async def test_failures_are_retried_less_and_less_often() -> None:
    reconciler = Scripted(TransientError("no connection"))
    loops = running(reconciler)
    await asyncio.sleep(400)
    await loops.stop()
    pauses = reconciler.pauses()
    expected = [1, 2, 4, 8, 16, 32, 60, 60]
    assert [round(pause / wanted) for pause, wanted in zip(pauses, expected, strict=False)] == [1] * len(expected)


@pytest.mark.looptime
async def test_a_server_that_asks_for_time_gets_it() -> None:
    reconciler = Scripted(TransientError("too many requests", retry_after_seconds=17), SERVING)
    loops = running(reconciler)
    await asyncio.sleep(60)
    await loops.stop()
    assert reconciler.pauses() == [pytest.approx(17)]


@pytest.mark.looptime
async def test_a_conflict_is_decided_again_within_a_second() -> None:
    reconciler = Scripted(ConflictError("changed"), SERVING)
    loops = running(reconciler)
    await asyncio.sleep(60)
    await loops.stop()
    assert len(reconciler.times) == 2
    assert reconciler.pauses()[0] < 1


@pytest.mark.looptime
@pytest.mark.parametrize("error", [ValueError("a mistake"), InvalidError("forbidden")])
async def test_no_error_ends_a_loop(error: Exception) -> None:
    reconciler = Scripted(error, SERVING)
    loops = running(reconciler)
    await asyncio.sleep(60)
    assert loops.overdue() == []
    await loops.stop()
    assert len(reconciler.times) == 2


@pytest.mark.looptime
async def test_a_refusal_is_given_to_the_next_pass_at_once_and_then_retried_with_patience() -> None:
    reconciler = Scripted(
        Passed(phase=Phase.FAILED, rejected="quota", look_again_seconds=0.0),
        Passed(phase=Phase.FAILED, rejected="quota"),
    )
    loops = running(reconciler)
    await asyncio.sleep(3600)
    await loops.stop()
    assert reconciler.rejections[:3] == ["", "quota", "quota"]
    assert reconciler.pauses()[0] == 0
    assert max(reconciler.pauses()) <= 360


@pytest.mark.looptime
async def test_a_refusal_in_new_words_each_time_is_retried_with_patience_as_well() -> None:
    reconciler = Scripted(
        *(
            Passed(phase=Phase.FAILED, rejected=f"denied, request {number}", look_again_seconds=0.0)
            for number in range(1000)
        )
    )
    loops = running(reconciler)
    await asyncio.sleep(3600)
    await loops.stop()
    assert reconciler.rejections[:2] == ["", "denied, request 0"]
    assert reconciler.pauses()[0] == 0
    assert len(reconciler.times) < 60


@pytest.mark.looptime
async def test_a_resource_that_is_gone_has_no_loop() -> None:
    reconciler = Scripted(SERVING, GONE)
    loops = running(reconciler)
    await asyncio.sleep(1)
    loops.wake_or_start("stories", "storyteller")
    await asyncio.sleep(3600)
    assert len(reconciler.times) == 2
    reconciler.script = [SERVING]
    loops.wake_or_start("stories", "storyteller")
    await asyncio.sleep(1)
    assert len(reconciler.times) == 3
    await loops.stop()


@pytest.mark.looptime
async def test_a_pass_that_hangs_is_ended_and_the_loop_goes_on() -> None:
    class Hanging(Scripted):
        async def run_once(self, namespace: str, name: str, *, memory: Memory, rejected: str = "") -> Passed:
            passed = await super().run_once(namespace, name, memory=memory, rejected=rejected)
            if len(self.times) == 1:
                await asyncio.get_running_loop().create_future()
            return passed

    reconciler = Hanging(SERVING)
    loops = running(reconciler)
    await asyncio.sleep(299)
    assert len(reconciler.times) == 1
    await asyncio.sleep(60)
    assert len(reconciler.times) == 2
    assert loops.overdue() == []
    await loops.stop()


@pytest.mark.looptime
async def test_loops_that_wait_for_their_turn_while_the_api_server_is_silent_are_not_overdue() -> None:
    class Slow(Scripted):
        async def run_once(self, namespace: str, name: str, *, memory: Memory, rejected: str = "") -> Passed:
            await asyncio.sleep(200)
            return await super().run_once(namespace, name, memory=memory, rejected=rejected)

    reconciler = Slow(TransientError("no answer"))
    loops = Loops(reconciler, Metrics())
    for number in range(100):
        loops.wake_or_start("stories", f"story-{number}")
    for _ in range(12):
        await asyncio.sleep(100)
        assert loops.overdue() == []
    await loops.stop()


@pytest.mark.looptime
async def test_a_loop_that_does_not_tick_is_overdue(monkeypatch: pytest.MonkeyPatch) -> None:
    reconciler = Scripted(SERVING)
    loops = running(reconciler)
    await asyncio.sleep(1)
    now = asyncio.get_running_loop().time()
    monkeypatch.setattr(clock, "monotonic", lambda: now + 2 * RESYNC_SECONDS)
    assert loops.overdue() == ["stories/storyteller"]
    await loops.stop()
