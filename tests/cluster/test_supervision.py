"""A program that ends is started again, less and less often; all of them end in the order that is asked for."""

import os
import signal
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from cluster.supervision import Supervisor

SLEEP = [sys.executable, "-c", "import time; time.sleep(600)"]
LEAVE_A_MARK = "import signal, sys, time; signal.signal(15, lambda *_: (open({0!r}, 'a').write({1!r}), sys.exit())); open({2!r}, 'w'); time.sleep(600)"


class Recorder:
    """Collects what the supervisor reports."""

    def __init__(self) -> None:
        self.lines: list[str] = []

    def __call__(self, line: str) -> None:
        self.lines.append(line)


@pytest.fixture
def report() -> Recorder:
    return Recorder()


@pytest.fixture
def supervisor(tmp_path: Path, report: Recorder) -> Iterator[Supervisor]:
    handled = (signal.SIGCHLD, signal.SIGTERM, signal.SIGINT)
    before = {number: signal.getsignal(number) for number in handled}
    made = Supervisor(logs=tmp_path, report=report)
    yield made
    made.stop([[component.name for component in made.components]])
    signal.set_wakeup_fd(-1)
    for number, handler in before.items():
        signal.signal(number, handler)


def turn_until(supervisor: Supervisor, holds: Callable[[], bool]) -> None:
    deadline = time.monotonic() + 30
    while not holds():
        assert time.monotonic() < deadline
        supervisor.turn(seconds=0.05)


def test_a_program_that_ends_is_started_again(supervisor: Supervisor, tmp_path: Path) -> None:
    supervisor.start("crasher", ["sh", "-c", "echo once more; exit 3"])

    turn_until(supervisor, lambda: (tmp_path / "crasher.log").read_text().count("once more") >= 3)

    assert supervisor.components[0].restarts >= 2


def test_each_restart_waits_longer_and_is_reported(supervisor: Supervisor, report: Recorder) -> None:
    supervisor.start("crasher", ["false"])

    turn_until(supervisor, lambda: supervisor.components[0].restarts >= 2)

    planned = [line for line in report.lines if "ended with status 1" in line]
    assert "again in 0.5 s" in planned[0]
    assert "again in 1.0 s" in planned[1]


def test_a_killed_program_is_started_again(supervisor: Supervisor) -> None:
    supervisor.start("sleeper", SLEEP)
    first = supervisor.components[0].pid
    assert first is not None
    os.kill(first, 9)

    turn_until(supervisor, lambda: supervisor.components[0].pid not in (None, first))


def test_programs_end_in_the_order_asked_for(supervisor: Supervisor, tmp_path: Path) -> None:
    marks = tmp_path / "marks"
    for name in ("database", "server"):
        started = tmp_path / f"{name} started"
        supervisor.start(name, [sys.executable, "-c", LEAVE_A_MARK.format(str(marks), f"{name} ", str(started))])
        turn_until(supervisor, started.exists)

    supervisor.stop([["server"], ["database"]])

    assert marks.read_text() == "server database "
