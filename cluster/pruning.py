"""Empties the cache that all checkouts share."""

import shutil
from pathlib import Path

from cluster import paths, processes
from cluster.errors import ClusterError
from cluster.progress import Step


def prune() -> int:
    """Remove downloads, compiled programs, image layers and pushed images; return the bytes that were freed.

    Raises:
        ClusterError: a cluster runs from these programs.
    """
    if running := processes.all_supervisors():
        folders = ", ".join(sorted({str(folder.parent) for folder in running.values()}))
        raise ClusterError(f"a cluster is running from the cache, in {folders}: end it there with `make clean-cluster`")
    cache = paths.cache()
    freed = occupied_bytes(cache)
    with Step(f"remove {cache}") as step:
        if cache.exists():
            shutil.rmtree(cache)
        step.detail = f"{freed / 2**30:.1f} GiB"
    return freed


def occupied_bytes(folder: Path) -> int:
    """What `folder` takes on the disk; files with several names count once."""
    seen: dict[tuple[int, int], int] = {}
    for file in folder.rglob("*"):
        status = file.lstat()
        seen[status.st_dev, status.st_ino] = status.st_blocks * 512
    return sum(seen.values())
