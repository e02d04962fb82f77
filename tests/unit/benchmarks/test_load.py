"""Is the machine ours alone?"""

from collections.abc import Iterable, Iterator

import pytest

from benchmarks.errors import LoadedMachineError
from benchmarks.load import CpuTimes, Load, LoadGuard, ProcessTimes, Snapshot, tree_seconds

QUIET, BUSY, STOLEN = Load(others=0.02, stolen=0.0), Load(others=1.0, stolen=0.0), Load(others=0.0, stolen=0.2)


class Machine:
    """Plays the loads that follow each other, each for a second; the last one goes on."""

    def __init__(self, *loads: Load) -> None:
        self._loads = list(loads)
        self._now = Snapshot(at=0.0, cpu=CpuTimes(busy=0.0, stolen=0.0), measured=0.0, own=0.0)
        self._is_end = False

    def snapshot(self, _: Iterable[int]) -> Snapshot:
        """Every second snapshot ends a stretch of work: ours takes all of a core, and the load comes on top."""
        if self._is_end:
            load = self._loads.pop(0) if len(self._loads) > 1 else self._loads[0]
            cpu = CpuTimes(busy=self._now.cpu.busy + 1.0 + load.others, stolen=self._now.cpu.stolen + load.stolen)
            self._now = Snapshot(
                at=self._now.at + 1.0, cpu=cpu, measured=self._now.measured + 0.75, own=self._now.own + 0.25
            )
        self._is_end = not self._is_end
        return self._now

    def guard(self, **settings: object) -> LoadGuard:
        return LoadGuard(snapshot=self.snapshot, sleep=lambda _: None, **settings)  # type: ignore[arg-type]


def runs() -> Iterator[int]:
    yield from range(100)


def test_cpu_times_are_read_without_counting_guests_twice() -> None:
    times = CpuTimes.parse("cpu  100 20 30 5000 40 5 6 7 50 10\ncpu0 1 2 3 4 5 6 7 8 9 0\n")
    assert times == CpuTimes(busy=1.61, stolen=0.07)


def test_a_process_is_read_whatever_its_name() -> None:
    fields = "S 7 7 7 0 -1 4194304 1 2 3 4 150 50 25 75 20 0 1 0 100 0 0"
    assert ProcessTimes.parse(f"42 (a) b (c) {fields}") == ProcessTimes(pid=42, parent=7, seconds=3.0)


def test_a_tree_is_a_process_and_all_below_it() -> None:
    processes = [
        ProcessTimes(pid=1, parent=0, seconds=100.0),
        ProcessTimes(pid=2, parent=1, seconds=1.0),
        ProcessTimes(pid=4, parent=3, seconds=4.0),
        ProcessTimes(pid=3, parent=2, seconds=2.0),
        ProcessTimes(pid=5, parent=1, seconds=50.0),
    ]
    assert tree_seconds(2, processes) == 7.0
    assert tree_seconds(99, processes) == 0.0


def test_a_quiet_machine_is_measured_at_once() -> None:
    count = runs()
    measured = Machine(QUIET).guard().run("x", lambda: next(count))
    assert (measured.result, measured.disturbed) == (0, False)
    assert measured.load.others == pytest.approx(0.02)
    assert measured.cpu_seconds == pytest.approx(0.75)


def test_nothing_is_measured_before_the_machine_is_quiet() -> None:
    count = runs()
    measured = Machine(BUSY, STOLEN, QUIET, QUIET).guard().run("x", lambda: next(count))
    assert (measured.result, measured.disturbed) == (0, False)


def test_a_disturbed_run_is_repeated() -> None:
    count = runs()
    measured = Machine(QUIET, BUSY, QUIET, QUIET).guard().run("x", lambda: next(count))
    assert (measured.result, measured.disturbed) == (1, False)


def test_a_machine_that_stays_loaded_is_not_judged() -> None:
    count = runs()
    with pytest.raises(LoadedMachineError, match=r"did not become quiet within 5 s before x \(other processes 1.00"):
        Machine(BUSY).guard(patience_seconds=5.0).run("x", lambda: next(count))
    assert next(count) == 0


def test_a_run_that_is_always_disturbed_is_not_judged() -> None:
    with pytest.raises(LoadedMachineError, match=r"x was disturbed 2 times.*--force"):
        Machine(QUIET, BUSY, QUIET, BUSY).guard(attempts=2).run("x", lambda: 0)


def test_force_measures_beside_any_load_and_says_so() -> None:
    measured = Machine(STOLEN).guard(force=True).run("x", lambda: "done")
    assert (measured.result, measured.disturbed) == ("done", True)


def test_a_real_snapshot_counts_our_own_work_as_ours() -> None:
    before = Snapshot.take(())
    spent = sum(i * i for i in range(300_000))
    after = Snapshot.take(())
    assert spent > 0
    assert after.own >= before.own
    assert after.measured == before.measured == 0.0
    assert after.cpu.busy >= before.cpu.busy
