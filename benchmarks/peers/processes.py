"""Processes that are measured: pinned to their cores, known by PID files, ended with all that they started."""

import json
import os
import select
import signal
import subprocess
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from benchmarks import paths
from benchmarks.errors import BenchmarkError
from benchmarks.peers.placement import Placement

_END_SECONDS = 20.0
_LOG_LINES = 15


@dataclass
class Pinned:
    """A process of ours and its log. It leads a session of its own, so that its whole tree can be ended at once."""

    name: str
    popen: "subprocess.Popen[str]"
    log: Path
    speaks_lines: bool
    _stopped: bool = False

    @classmethod
    def start(
        cls,
        name: str,
        command: Sequence[str],
        *,
        placement: Placement,
        environment: Mapping[str, str] | None = None,
        speaks_lines: bool = True,
    ) -> "Pinned":
        """Start `command` on the server cores, after ending what an interrupted benchmark left under the same name.

        `speaks_lines`: it takes questions from its standard input and answers on its standard output, and it ends by itself, with all that it
        has started, when its input is closed. The output of others is log as well: a pipe that nobody reads would block them.
        """
        end_leftover(name)
        paths.LOGS.mkdir(parents=True, exist_ok=True)
        paths.RUN.mkdir(parents=True, exist_ok=True)
        log = paths.LOGS / f"{name}.log"
        with log.open("wb") as output:
            popen = subprocess.Popen(
                ["taskset", "-c", placement.server_list, *command],
                stdin=subprocess.PIPE if speaks_lines else subprocess.DEVNULL,
                stdout=subprocess.PIPE if speaks_lines else output,
                stderr=output,
                text=True,
                env=os.environ | threads_environment(placement) | dict(environment or {}),
                start_new_session=True,
            )
        _pid_file(name).write_text(json.dumps({"pid": popen.pid, "started": _start_time(popen.pid)}))
        return cls(name=name, popen=popen, log=log, speaks_lines=speaks_lines)

    @property
    def pid(self) -> int:
        """Of the process itself; the rest of its tree lies below."""
        return self.popen.pid

    def wait_until(self, condition: Callable[[], bool], *, what: str, seconds: float) -> None:
        """Return when `condition` holds; BenchmarkError with the end of the log when it does not come to that."""
        deadline = time.monotonic() + seconds
        while not condition():
            if self.popen.poll() is not None:
                raise BenchmarkError(
                    f"{self.name} has ended ({self.popen.returncode}) before {what}:\n{self.log_end()}"
                )
            if time.monotonic() > deadline:
                raise BenchmarkError(f"{self.name}: no {what} within {seconds:.0f} s:\n{self.log_end()}")
            time.sleep(0.2)

    def read_line(self, *, what: str, seconds: float) -> str:
        """The next line that it prints."""
        output = self.popen.stdout
        if output is None:
            raise RuntimeError(f"{self.name} was started without a pipe")
        readable, _, _ = select.select([output], [], [], seconds)
        line = output.readline() if readable else ""
        if not line:
            state = f"ended ({self.popen.wait(5)})" if readable else f"was silent for {seconds:.0f} s"
            raise BenchmarkError(f"{self.name} {state} instead of {what}:\n{self.log_end()}")
        return line

    def ask(self, message: dict[str, Any], *, seconds: float) -> Any:
        """Send one line of JSON and return the answer to it."""
        if self.popen.stdin is None:
            raise RuntimeError(f"{self.name} was started without a pipe")
        with suppress(BrokenPipeError):  # it has ended; what follows says so, with its log
            self.popen.stdin.write(json.dumps(message) + "\n")
            self.popen.stdin.flush()
        return json.loads(self.read_line(what="an answer", seconds=seconds))

    def log_end(self) -> str:
        """The last lines of its log."""
        return "\n".join(self.log.read_text(errors="replace").splitlines()[-_LOG_LINES:]) + f"\n(all of it: {self.log})"

    def stop(self) -> None:
        """End it and all that it started. May be called again."""
        if self._stopped:
            return
        self._stopped = True
        if self.popen.stdin is not None:
            with suppress(BrokenPipeError):
                self.popen.stdin.close()
        if self.speaks_lines:
            with suppress(subprocess.TimeoutExpired):
                self.popen.wait(_END_SECONDS)
        _end_session(self.popen.pid, ended=lambda: self.popen.poll() is not None)
        self.popen.wait()
        if self.popen.stdout is not None:
            self.popen.stdout.close()
        _pid_file(self.name).unlink(missing_ok=True)


def threads_environment(placement: Placement) -> dict[str, str]:
    """The same number of threads and the same OpenMP runtime for everyone: vLLM needs Intel's, so all get it."""
    threads = str(placement.threads)
    return {
        "OMP_NUM_THREADS": threads,
        "MKL_NUM_THREADS": threads,
        "LD_PRELOAD": str(paths.OPENMP),
        "HF_HUB_OFFLINE": "1",
        "TOKENIZERS_PARALLELISM": "false",
        "PYTHONUNBUFFERED": "1",
    }


def end_leftover(name: str) -> None:
    """End the process that a PID file names, if it still is the one that was started then."""
    file = _pid_file(name)
    if not file.exists():
        return
    noted = json.loads(file.read_text())
    if _start_time(noted["pid"]) == noted["started"]:
        _end_session(noted["pid"], ended=lambda: _start_time(noted["pid"]) != noted["started"])
    file.unlink()


def _end_session(leader: int, *, ended: Callable[[], bool]) -> None:
    for number in (signal.SIGTERM, signal.SIGKILL):
        with suppress(ProcessLookupError):
            os.killpg(leader, number)
        deadline = time.monotonic() + _END_SECONDS
        while time.monotonic() < deadline:
            if ended():
                with suppress(ProcessLookupError):
                    os.killpg(leader, signal.SIGKILL)  # what outlives its leader
                return
            time.sleep(0.1)
    raise BenchmarkError(f"process {leader} does not end, not even by SIGKILL; see `ps -s {leader}`")


def _pid_file(name: str) -> Path:
    return paths.RUN / f"{name}.pid"


def _start_time(pid: int) -> str | None:
    """When a process began, in the kernel's ticks: a number that the next process with the same PID does not have. None: it has ended."""
    try:
        stat = Path(f"/proc/{pid}/stat").read_text(errors="replace")
    except OSError:
        return None
    fields = stat.rpartition(")")[2].split()
    return None if fields[0] in "ZX" else fields[19]
