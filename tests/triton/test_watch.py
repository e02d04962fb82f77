"""When the launcher gives up on a running Triton."""

from pathlib import Path

from diffusion_worker.triton.heartbeat import read_tick
from diffusion_worker.triton.processes import Process, children_of
from diffusion_worker.triton.watch import Watch

LIVE = Process(pid=8, parent=7, name="triton_python_b", is_zombie=False)
DEAD = Process(pid=8, parent=7, name="triton_python_b", is_zombie=True)
OTHER = Process(pid=9, parent=7, name="sh", is_zombie=True)


def look(
    watch: Watch, children: list[Process], *, now: float, age: float | None = 0.0, has_listened: bool = True
) -> str | None:
    return watch.look(children=children, last_tick_age=age, has_listened=has_listened, now=now)


def test_a_live_stub_is_fine_for_ever() -> None:
    watch = Watch(hang_seconds=60)
    assert [look(watch, [LIVE, OTHER], now=t) for t in (0, 10, 1e6)] == [None, None, None]


def test_a_stub_that_stays_dead_is_reported() -> None:
    watch = Watch(hang_seconds=60)
    look(watch, [LIVE], now=0)
    assert look(watch, [DEAD], now=1) is None
    assert look(watch, [DEAD], now=3) is not None


def test_a_stub_that_triton_reaps_is_none_of_our_business() -> None:
    watch = Watch(hang_seconds=60)
    assert look(watch, [DEAD], now=0) is None
    assert look(watch, [LIVE], now=1) is None
    assert look(watch, [DEAD], now=2) is None


def test_no_stub_yet_is_waited_for_and_a_vanished_one_is_not() -> None:
    watch = Watch(hang_seconds=60)
    assert look(watch, [], now=0) is None
    assert look(watch, [], now=1000) is None
    look(watch, [LIVE], now=1001)
    assert look(watch, [], now=1002) is None
    assert look(watch, [], now=1013) is not None


def test_a_triton_that_never_opens_its_ports_although_the_engine_is_loaded_is_reported() -> None:
    watch = Watch(hang_seconds=600)
    assert look(watch, [LIVE], now=0, age=None, has_listened=False) is None  # it loads as long as it takes
    assert look(watch, [LIVE], now=1000, has_listened=False) is None
    assert look(watch, [LIVE], now=1089, has_listened=False) is None
    assert "has not opened its ports" in (look(watch, [LIVE], now=1090, has_listened=False) or "")


def test_a_triton_that_opens_its_ports_late_is_fine() -> None:
    watch = Watch(hang_seconds=600)
    assert look(watch, [LIVE], now=0, has_listened=False) is None
    assert look(watch, [LIVE], now=80) is None
    assert look(watch, [LIVE], now=1000) is None


def test_an_engine_that_does_not_tick_is_reported_with_its_age() -> None:
    watch = Watch(hang_seconds=60)
    assert look(watch, [LIVE], now=0, age=None) is None
    assert look(watch, [LIVE], now=1, age=60) is None
    assert look(watch, [LIVE], now=2, age=61) == "the engine has not ticked for 61 s (limit 60 s)"


def test_children_are_read_from_proc_whatever_their_names_hold(tmp_path: Path) -> None:
    for pid, line in {
        8: "8 (a) b (c) S 7 8 8 0",
        9: "9 (triton_python_b) Z 7 9 9 0",
        10: "10 (sh) S 1 10 10 0",
    }.items():
        (tmp_path / str(pid)).mkdir()
        (tmp_path / str(pid) / "stat").write_text(line)
    (tmp_path / "11").mkdir()  # ended between two reads
    (tmp_path / "self").mkdir()
    found = sorted(children_of(7, tmp_path), key=lambda child: child.pid)
    assert found == [
        Process(pid=8, parent=7, name="a) b (c", is_zombie=False),
        Process(pid=9, parent=7, name="triton_python_b", is_zombie=True),
    ]


def test_a_tick_that_is_not_there_or_half_written_is_no_tick(tmp_path: Path) -> None:
    assert read_tick(tmp_path / "heartbeat") is None
    (tmp_path / "heartbeat").write_text("")
    assert read_tick(tmp_path / "heartbeat") is None
    (tmp_path / "heartbeat").write_text("12.5")
    assert read_tick(tmp_path / "heartbeat") == 12.5
