"""Empties the cache that all checkouts share."""

import shutil
from contextlib import ExitStack
from pathlib import Path

from cluster import mounts, paths, processes
from cluster.errors import ClusterError
from cluster.locks import exclusive
from cluster.progress import Step

_LOCKS = ("images.lock", "packages.lock", "programs.lock", "tools.lock")


def prune() -> int:
    """Remove downloads, compiled programs, image layers and pushed images; return the bytes that were freed.

    Waits for whoever is about to fill the cache. The locks and the folder itself stay.

    Raises:
        ClusterError: a cluster runs from these programs, or something is mounted in the cache.
    """
    if running := processes.all_supervisors():
        folders = ", ".join(sorted({str(folder.parent) for folder in running.values()}))
        raise ClusterError(f"a cluster is running from the cache, in {folders}: end it there with `make clean-cluster`")
    cache = paths.cache()
    with ExitStack() as locks:
        for name in _LOCKS:
            locks.enter_context(exclusive(cache / name, purpose="build into the cache or empty it"))
        mounts.require_none([point for point in mounts.below(cache) if point != cache])
        freed = occupied_bytes(cache)
        with Step(f"empty {cache}") as step:
            for entry in cache.iterdir():
                if entry.is_dir() and not entry.is_symlink():
                    shutil.rmtree(entry)
                elif entry.suffix != ".lock":
                    entry.unlink()
            step.detail = f"{freed / 2**30:.1f} GiB"
    return freed


def occupied_bytes(folder: Path) -> int:
    """What `folder` takes on the disk; files with several names count once."""
    seen: dict[tuple[int, int], int] = {}
    for file in folder.rglob("*"):
        status = file.lstat()
        seen[status.st_dev, status.st_ino] = status.st_blocks * 512
    return sum(seen.values())
