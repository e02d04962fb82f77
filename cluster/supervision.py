"""Keeps programs running: starts them, restarts those that end, ends them in order. Reaps what they leave behind."""

import os
import select
import signal
import subprocess
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from types import FrameType

from cluster.errors import ClusterError

_FIRST_BACKOFF_SECONDS, _LAST_BACKOFF_SECONDS = 0.5, 30.0
_HEALTHY_SECONDS = 60.0
_STOP_SECONDS = 5.0


class StopRequestedError(Exception):
    """Somebody asked the supervisor to end (SIGTERM or SIGINT)."""


@dataclass
class Component:
    """A program under supervision, and how it fares."""

    name: str
    command: Sequence[str]
    pid: int | None = None
    restarts: int = 0
    started_at: float = 0.0
    next_start_at: float | None = None
    backoff_seconds: float = field(default=_FIRST_BACKOFF_SECONDS)


class Supervisor:
    """Runs components until it is asked to stop. For the main thread of process 1 of a PID namespace."""

    def __init__(self, *, logs: Path, report: Callable[[str], None]) -> None:
        self._logs = logs
        self._report = report
        self._components: list[Component] = []
        self._stop_requested = False
        self._wakeup, write_end = os.pipe2(os.O_NONBLOCK | os.O_CLOEXEC)
        signal.set_wakeup_fd(write_end, warn_on_full_buffer=False)
        signal.signal(signal.SIGCHLD, _do_nothing)
        for number in (signal.SIGTERM, signal.SIGINT):
            signal.signal(number, self._on_stop_signal)

    @property
    def components(self) -> Sequence[Component]:
        return tuple(self._components)

    def start(self, name: str, command: Sequence[str]) -> None:
        """Run `command` for good, its output in `<name>.log`."""
        component = Component(name, command)
        self._components.append(component)
        self._spawn(component)

    def wait_until(self, ready: Callable[[], bool], *, what: str, seconds: float) -> None:
        """Supervise until `ready()` holds."""
        deadline = time.monotonic() + seconds
        while not ready():
            if time.monotonic() > deadline:
                raise ClusterError(f"{what} was not ready after {seconds:.0f} s: see {self._logs}")
            self.turn(seconds=0.1)

    def run(self, *, each_turn: Callable[[], None]) -> None:
        """Supervise until asked to stop."""
        while True:
            self.turn(seconds=5.0)
            each_turn()

    def turn(self, *, seconds: float) -> None:
        """Wait for something to happen, `seconds` at most, and see to it."""
        due = [c.next_start_at - time.monotonic() for c in self._components if c.next_start_at is not None]
        select.select([self._wakeup], [], [], max(0.0, min([seconds, *due])))
        try:
            while os.read(self._wakeup, 512):
                pass
        except BlockingIOError:
            pass
        if self._stop_requested:
            raise StopRequestedError
        self._reap()
        for component in self._components:
            if component.next_start_at is not None and component.next_start_at <= time.monotonic():
                component.restarts += 1
                self._spawn(component)

    def stop(self, order: Sequence[Sequence[str]]) -> None:
        """End the components group by group; each group has a few seconds before it is killed."""
        for group in order:
            members = [c for c in self._components if c.name in group]
            for component in members:
                component.next_start_at = None
                self._signal(component, signal.SIGTERM)
            deadline = time.monotonic() + _STOP_SECONDS
            while any(c.pid for c in members) and time.monotonic() < deadline:
                select.select([self._wakeup], [], [], 0.05)
                self._reap(restart=False)
            for component in members:
                self._signal(component, signal.SIGKILL)

    def _spawn(self, component: Component) -> None:
        with (self._logs / f"{component.name}.log").open("ab") as log:
            try:
                process = subprocess.Popen(
                    component.command, stdin=subprocess.DEVNULL, stdout=log, stderr=log, start_new_session=True
                )
            except OSError as error:
                raise ClusterError(f"cannot start {component.name}: {error}") from error
        process.returncode = 0  # we reap every child ourselves, whoever started it
        component.pid = process.pid
        component.started_at = time.monotonic()
        component.next_start_at = None
        self._report(f"started {component.name}, process {component.pid}")

    def _reap(self, *, restart: bool = True) -> None:
        while True:
            try:
                pid, status = os.waitpid(-1, os.WNOHANG)
            except ChildProcessError:
                return
            if pid == 0:
                return
            ended = next((c for c in self._components if c.pid == pid), None)
            if ended is not None:
                ended.pid = None
                if restart:
                    self._plan_restart(ended, os.waitstatus_to_exitcode(status))

    def _plan_restart(self, component: Component, exit_code: int) -> None:
        now = time.monotonic()
        if now - component.started_at > _HEALTHY_SECONDS:
            component.backoff_seconds = _FIRST_BACKOFF_SECONDS
        component.next_start_at = now + component.backoff_seconds
        self._report(
            f"{component.name} ended with status {exit_code} after {now - component.started_at:.1f} s, "
            f"starting it again in {component.backoff_seconds} s"
        )
        component.backoff_seconds = min(component.backoff_seconds * 2, _LAST_BACKOFF_SECONDS)

    def _signal(self, component: Component, number: signal.Signals) -> None:
        if component.pid is not None:
            os.kill(component.pid, number)

    def _on_stop_signal(self, _number: int, _frame: FrameType | None) -> None:
        self._stop_requested = True


def _do_nothing(_number: int, _frame: FrameType | None) -> None:
    """Python wakes up from select() only for signals that have a handler."""
