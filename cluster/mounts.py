"""Looks for mounts before a folder is removed: removing it would remove what is mounted below it."""

import re
from pathlib import Path

from cluster.errors import ClusterError


def below(folder: Path, mounts: str | None = None) -> list[Path]:
    """Mount points in `folder`, itself included; `mounts` is the text of /proc/mounts."""
    lines = (Path("/proc/self/mounts").read_text() if mounts is None else mounts).splitlines()
    points = [Path(_unescaped(line.split()[1])) for line in lines]
    return [point for point in points if point.is_relative_to(folder)]


def require_none(points: list[Path]) -> None:
    """Raise when there is one, with what to do."""
    if points:
        raise ClusterError(f"{points[0]} is a mount: unmount it with `umount '{points[0]}'`, then try again")


def _unescaped(field: str) -> str:
    """The kernel writes blanks, tabs, newlines and backslashes as three octal digits."""
    return re.sub(r"\\([0-7]{3})", lambda digits: chr(int(digits[1], 8)), field)
