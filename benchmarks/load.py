"""Is the machine ours alone? CPU time of everything but the measured processes, and time that the hypervisor took away."""

import itertools
import os
import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Generic, TypeVar

from benchmarks.errors import LoadedMachineError
from benchmarks.progress import say

T = TypeVar("T")

_PROC = Path("/proc")
_TICKS = os.sysconf("SC_CLK_TCK")  # per second
_LOOK_SECONDS = 1.0


@dataclass(frozen=True)
class Load:
    """Work that was not ours, in cores: 0.5 is half a core's time."""

    others: float
    stolen: float

    def __str__(self) -> str:
        return f"other processes {self.others:.2f} cores, hypervisor {self.stolen:.2f}"


@dataclass(frozen=True)
class Limits:
    """How much of it a figure bears. The kernel's own housekeeping stays below."""

    others: float = 0.10
    stolen: float = 0.03

    def exceeded_by(self, load: Load) -> bool:
        """Whether a figure that was measured under `load` says too little about what was measured."""
        return load.others > self.others or load.stolen > self.stolen


@dataclass(frozen=True)
class CpuTimes:
    """Seconds since boot, over all cores."""

    busy: float
    stolen: float

    @classmethod
    def parse(cls, stat: str) -> "CpuTimes":
        """From the text of /proc/stat."""
        # cpu user nice system idle iowait irq softirq steal guest guest_nice; guest times are part of user and nice.
        user, nice, system, _, _, irq, softirq, steal = (int(ticks) / _TICKS for ticks in stat.split()[1:9])
        return cls(busy=user + nice + system + irq + softirq, stolen=steal)


@dataclass(frozen=True)
class ProcessTimes:
    """A process as /proc/PID/stat shows it."""

    pid: int
    parent: int
    seconds: float  # of CPU, with those of its children that have ended

    @classmethod
    def parse(cls, stat: str) -> "ProcessTimes":
        """From the text of /proc/PID/stat."""
        before, _, after = stat.rpartition(")")  # the name before it may hold blanks and brackets
        fields = after.split()
        return cls(
            pid=int(before.partition(" ")[0]),
            parent=int(fields[1]),
            seconds=sum(int(ticks) for ticks in fields[11:15]) / _TICKS,
        )


def tree_seconds(root: int, processes: Iterable[ProcessTimes]) -> float:
    """CPU seconds of a process and all below it."""
    by_parent: dict[int, list[ProcessTimes]] = {}
    total = 0.0
    for process in processes:
        by_parent.setdefault(process.parent, []).append(process)
        if process.pid == root:
            total += process.seconds
    below = list(by_parent.get(root, ()))
    while below:
        process = below.pop()
        total += process.seconds
        below.extend(by_parent.get(process.pid, ()))
    return total


@dataclass(frozen=True)
class Snapshot:
    """The machine's CPU time up to now, and our part of it."""

    at: float
    cpu: CpuTimes
    measured: float  # of the processes that are measured
    own: float  # of this process, without those that it started

    @classmethod
    def take(cls, roots: Iterable[int]) -> "Snapshot":
        """Now; the trees below `roots` are measured."""
        processes = _processes()
        me = next(process.seconds for process in processes if process.pid == os.getpid())
        return cls(
            at=time.monotonic(),
            cpu=CpuTimes.parse((_PROC / "stat").read_text()),
            measured=sum(tree_seconds(root, processes) for root in roots),
            own=me,
        )

    def load_until(self, end: "Snapshot") -> Load:
        """What was going on besides our work since this snapshot."""
        seconds = max(end.at - self.at, 1 / _TICKS)
        ours = (end.measured - self.measured) + (end.own - self.own)
        others = (end.cpu.busy - self.cpu.busy) - ours
        return Load(others=max(0.0, others / seconds), stolen=(end.cpu.stolen - self.cpu.stolen) / seconds)


@dataclass(frozen=True)
class Measured(Generic[T]):
    """A result and the load beside which it came about."""

    result: T
    load: Load
    disturbed: bool
    cpu_seconds: float  # of the measured processes


@dataclass(frozen=True)
class LoadGuard:
    """Measures while the machine is quiet, again when it was not, and not at all when it stays loaded."""

    limits: Limits = Limits()
    patience_seconds: float = 60.0  # how long to wait for a quiet machine before a run
    attempts: int = 3
    force: bool = False  # measure whatever the load, and mark the results
    snapshot: Callable[[Iterable[int]], Snapshot] = Snapshot.take
    sleep: Callable[[float], None] = time.sleep

    def run(self, name: str, action: Callable[[], T], *, roots: Iterable[int] = ()) -> Measured[T]:
        """Do `action` beside a quiet machine; LoadedMachineError when there is none to be had.

        `roots` are the processes that work for it, each with all below it. Other processes that this one has started count as other
        work: a server that should be idle now must not disturb the one that is measured.
        """
        roots = tuple(roots)
        for attempt in range(1, self.attempts + 1):
            if not self.force:
                self._wait_until_quiet(name, roots)
            before = self.snapshot(roots)
            result = action()
            after = self.snapshot(roots)
            load = before.load_until(after)
            disturbed = self.limits.exceeded_by(load)
            if self.force or not disturbed:
                return Measured(result, load, disturbed, cpu_seconds=after.measured - before.measured)
            say(f"{name}: disturbed ({load}), attempt {attempt} of {self.attempts}")
        raise LoadedMachineError(
            f"{name} was disturbed {self.attempts} times: the machine is not quiet enough to judge ({load}). End the other work and run "
            "it again (finished parts are kept), or use --force, which is noted in the results"
        )

    def _wait_until_quiet(self, name: str, roots: tuple[int, ...]) -> None:
        told = False
        for look in itertools.count(1):
            before = self.snapshot(roots)
            self.sleep(_LOOK_SECONDS)
            load = before.load_until(self.snapshot(roots))
            if not self.limits.exceeded_by(load):
                return
            if look * _LOOK_SECONDS >= self.patience_seconds:
                raise LoadedMachineError(
                    f"the machine did not become quiet within {self.patience_seconds:.0f} s before {name} ({load}). End the other work "
                    "and run it again (finished parts are kept), or use --force, which is noted in the results"
                )
            if not told:
                say(f"{name}: waiting for a quiet machine ({load})")
                told = True


def _processes() -> list[ProcessTimes]:
    found = []
    for folder in _PROC.iterdir():
        if folder.name.isdigit():
            try:
                found.append(ProcessTimes.parse((folder / "stat").read_text(errors="replace")))
            except OSError:  # it has ended meanwhile
                continue
    return found
