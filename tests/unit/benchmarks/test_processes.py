"""Measured processes: pinned, known, and ended with all that they started."""

import json
import os
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from benchmarks import paths
from benchmarks.errors import BenchmarkError
from benchmarks.peers.placement import Cores, Placement
from benchmarks.peers.processes import Pinned, end_leftover

ONE = Placement(server_cpus=(0,), client_cpus=(0,))
Start = Callable[..., Pinned]


@pytest.fixture
def start(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Start]:
    """Starts a Python program that ends with the test; its log and PID file are the test's."""
    started: list[Pinned] = []
    monkeypatch.setattr(paths, "LOGS", tmp_path / "logs")
    monkeypatch.setattr(paths, "RUN", tmp_path / "run")
    monkeypatch.setattr(paths, "OPENMP", Path("/dev/null/none"))  # the loader warns and goes on

    def begin(code: str, name: str = "x", **settings: bool) -> Pinned:
        started.append(Pinned.start(name, [sys.executable, "-c", code], placement=ONE, **settings))
        return started[-1]

    yield begin
    for process in started:
        process.stop()


def is_running(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] not in "ZX"


def eventually(condition: Callable[[], bool]) -> None:
    deadline = time.monotonic() + 20
    while not condition():
        assert time.monotonic() < deadline
        time.sleep(0.01)


def test_a_process_and_its_children_stay_on_its_cores(start: Start) -> None:
    code = "import os, subprocess, sys; print(subprocess.check_output([sys.executable, '-c', 'import os; print(os.sched_getaffinity(0))'], text=True))"
    process = start(code)
    assert process.read_line(what="cores", seconds=20) == "{0}\n"


def test_a_question_is_a_line_and_so_is_its_answer(start: Start) -> None:
    process = start("import json, sys\nfor line in sys.stdin: print(json.dumps(json.loads(line)['n'] + 1), flush=True)")
    assert [process.ask({"n": n}, seconds=20) for n in (1, 2)] == [2, 3]


def test_a_process_that_ends_instead_of_answering_is_reported_with_its_log(start: Start) -> None:
    process = start("import sys; sys.exit('no such checkpoint')")
    with pytest.raises(BenchmarkError, match=r"x ended \(1\) instead of an answer:\n(.*\n)*no such checkpoint"):
        process.ask({}, seconds=20)


def test_a_process_that_is_silent_is_not_waited_for_any_longer(start: Start) -> None:
    process = start("import sys; sys.stdin.read()")
    with pytest.raises(BenchmarkError, match="x was silent for 0 s instead of an answer"):
        process.ask({}, seconds=0.1)


def test_waiting_ends_when_the_process_does(start: Start) -> None:
    process = start("raise SystemExit(3)")
    with pytest.raises(BenchmarkError, match=r"x has ended \(3\) before health"):
        process.wait_until(lambda: False, what="health", seconds=60)


def test_stopping_ends_the_whole_tree_even_when_it_ignores_the_signal(start: Start, tmp_path: Path) -> None:
    note = tmp_path / "pid"
    stubborn = f"import os, pathlib, signal, time; signal.signal(signal.SIGTERM, signal.SIG_IGN); pathlib.Path({str(note)!r}).write_text(str(os.getpid())); time.sleep(60)"
    process = start(f"import subprocess, sys; subprocess.run([sys.executable, '-c', {stubborn!r}])", speaks_lines=False)
    eventually(lambda: note.exists() and note.read_text() != "")
    process.stop()
    assert not is_running(process.pid)
    eventually(lambda: not is_running(int(note.read_text())))


def test_what_a_server_prints_is_in_its_log(start: Start) -> None:
    process = start("print('x' * 100_000, 'listening', flush=True)", speaks_lines=False)
    eventually(lambda: process.popen.poll() == 0)
    assert "x listening\n" in process.log_end()


def test_a_process_that_ends_with_its_pipe_cleans_up_first(start: Start, tmp_path: Path) -> None:
    mark = tmp_path / "clean"
    process = start(f"import sys, pathlib; sys.stdin.read(); pathlib.Path({str(mark)!r}).touch()")
    process.stop()
    assert mark.exists()


def test_what_an_interrupted_benchmark_left_is_ended_by_the_next(start: Start) -> None:
    left = start("import time; time.sleep(60)", speaks_lines=False)
    again = start("import time; time.sleep(60)", speaks_lines=False)
    assert left.popen.wait(20) != 0
    assert is_running(again.pid)


def test_another_process_under_an_old_number_is_left_alone(start: Start) -> None:
    with subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE) as stranger:
        paths.RUN.mkdir(parents=True)
        file = paths.RUN / "x.pid"
        file.write_text(json.dumps({"pid": stranger.pid, "started": "1"}))
        end_leftover("x")
        assert stranger.poll() is None
        assert not file.exists()


def test_cores_are_equal_for_all_and_the_client_is_apart_if_that_is_wanted() -> None:
    one, both = Placement.of(Cores.ONE), Placement.of(Cores.BOTH)
    assert not set(one.server_cpus) & set(one.client_cpus)
    assert one.threads == 1
    assert (both.server_cpus, both.client_cpus, both.threads) == ((0, 1), (0, 1), 2)
