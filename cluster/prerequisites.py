"""What the machine must offer, checked before anything is started, one clear line for each lack."""

import os
import shutil
from pathlib import Path

from cluster import cgroups, debian, paths
from cluster.errors import MissingPrerequisiteError

PACKAGES = ("containernetworking-plugins", "docker-registry", "iproute2", "mount", "nftables", "runc")
_NEEDED_GIB = 5


def require() -> None:
    """Raise MissingPrerequisiteError for the first thing that is missing; install packages that are."""
    require_root(os.geteuid())
    require_overlay(Path("/proc/filesystems").read_text())
    cgroups.require()
    require_space(paths.REPOSITORY, needed_gib=_NEEDED_GIB)
    debian.extend_path()
    debian.ensure(PACKAGES)


def require_for_down() -> None:
    """Ending a cluster needs root and nothing else."""
    require_root(os.geteuid())
    debian.extend_path()


def require_root(user: int) -> None:
    if user != 0:
        raise MissingPrerequisiteError(
            "not root: a node needs namespaces, mounts and cgroups; run with sudo, or set KUBE_CONTEXT to use a "
            "cluster that is there already"
        )


def require_root_to_build(user: int) -> None:
    if user != 0:
        raise MissingPrerequisiteError(
            "not root: building images needs namespaces and mounts; run with sudo, or build images/Containerfile.* "
            "with a tool of your own and install the chart as docs/install.md says"
        )


def require_overlay(filesystems: str) -> None:
    """`filesystems` is the text of /proc/filesystems."""
    if "overlay" not in filesystems.split():
        raise MissingPrerequisiteError("the kernel has no overlayfs, which images need: run `modprobe overlay`")


def require_space(folder: Path, *, needed_gib: int) -> None:
    """Raise unless `needed_gib` GiB are free where `folder` lies."""
    free_gib = shutil.disk_usage(folder).free / 2**30
    if free_gib < needed_gib:
        raise MissingPrerequisiteError(
            f"the disk of {folder} is nearly full: {free_gib:.1f} GiB free, {needed_gib} GiB needed; "
            "free some, for example with `python -m cluster prune`"
        )
