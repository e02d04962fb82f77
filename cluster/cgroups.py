"""The cgroup below which all pods of a cluster live, in cgroup v1, v2 or the hybrid of both."""

import os
import time
from dataclasses import dataclass
from pathlib import Path

from cluster.errors import ClusterError, MissingPrerequisiteError

_NEEDED = frozenset({"cpu", "cpuset", "memory", "pids"})
_EMPTY_SECONDS = 15.0


@dataclass(frozen=True)
class Hierarchy:
    """A mounted cgroup file system."""

    folder: Path
    version: int
    controllers: frozenset[str]


def hierarchies(mounts: str | None = None) -> list[Hierarchy]:
    """The cgroup file systems of this machine; `mounts` is the text of /proc/mounts."""
    found = []
    for line in (Path("/proc/mounts").read_text() if mounts is None else mounts).splitlines():
        _, folder, kind, options, *_ = line.split()
        if kind == "cgroup":
            found.append(Hierarchy(Path(folder), 1, frozenset(options.split(","))))
        elif kind == "cgroup2":
            file = Path(folder) / "cgroup.controllers"
            found.append(Hierarchy(Path(folder), 2, frozenset(file.read_text().split() if file.exists() else ())))
    return found


def require() -> None:
    """Raise unless the controllers that Kubernetes needs are there."""
    there = frozenset().union(*(hierarchy.controllers for hierarchy in hierarchies()))
    if lacking := sorted(_NEEDED - there):
        raise MissingPrerequisiteError(
            f"no cgroup controller for {', '.join(lacking)}: mount /sys/fs/cgroup (in a container: run it privileged, "
            "with its own cgroup file system)"
        )


def create(name: str) -> None:
    """Make the cgroup `/name` in every hierarchy; kubelet wants it to exist."""
    for hierarchy in hierarchies():
        cgroup = hierarchy.folder / name
        try:
            cgroup.mkdir(exist_ok=True)
            if hierarchy.version == 1 and "cpuset" in hierarchy.controllers:
                for file in ("cpuset.cpus", "cpuset.mems"):
                    (cgroup / file).write_text((hierarchy.folder / file).read_text())
            elif hierarchy.version == 2 and hierarchy.controllers:
                enable = " ".join(f"+{controller}" for controller in sorted(hierarchy.controllers))
                (hierarchy.folder / "cgroup.subtree_control").write_text(enable)
                (cgroup / "cgroup.subtree_control").write_text(enable)
        except OSError as error:
            raise MissingPrerequisiteError(
                f"cannot make the cgroup {cgroup} ({error.strerror}): run as root, in a container with --privileged"
            ) from error


def existing(name: str) -> list[Path]:
    """Folders of the cgroup `/name` that are there."""
    return [folder for hierarchy in hierarchies() if (folder := hierarchy.folder / name).is_dir()]


def remove(name: str) -> None:
    """Remove the cgroup `/name` with all below it. Its processes must have ended or be about to."""
    deadline = time.monotonic() + _EMPTY_SECONDS
    while folders := existing(name):
        for folder in folders:
            for parent, _, _ in os.walk(folder, topdown=False):
                _try_to_remove(Path(parent))
        if time.monotonic() > deadline and existing(name):
            raise ClusterError(f"the cgroup {folders[0]} still has processes: see cgroup.procs below it, and end them")
        if existing(name):
            time.sleep(0.05)


def _try_to_remove(cgroup: Path) -> None:
    try:
        cgroup.rmdir()
    except OSError:
        return  # still in use, or gone: looked at again by the caller
