"""Processes as /proc shows them: the image has no `ps`."""

from dataclasses import dataclass
from pathlib import Path

_PROC = Path("/proc")


@dataclass(frozen=True)
class Process:
    """One line of `ps`."""

    pid: int
    parent: int
    name: str  # cut to 15 characters by the kernel
    is_zombie: bool


def children_of(pid: int, proc: Path = _PROC) -> list[Process]:
    """The processes whose parent is `pid`."""
    processes = (_read(folder) for folder in proc.iterdir() if folder.name.isdigit())
    return [process for process in processes if process is not None and process.parent == pid]


def _read(folder: Path) -> Process | None:
    try:
        line = (folder / "stat").read_text(errors="replace")
    except OSError:  # it ended meanwhile
        return None
    # "pid (name) state parent ...": the name may hold blanks and brackets
    before, _, after = line.rpartition(")")
    state, parent = after.split()[:2]
    return Process(pid=int(folder.name), parent=int(parent), name=before.partition("(")[2], is_zombie=state in "ZX")
