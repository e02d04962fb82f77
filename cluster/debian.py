"""Debian packages that the cluster needs, installed when they are missing."""

import os
import shutil
import subprocess
from collections.abc import Sequence
from pathlib import Path

from cluster import paths
from cluster.errors import ClusterError, MissingPrerequisiteError
from cluster.locks import exclusive
from cluster.progress import Step

_ADMINISTRATION = ("/usr/local/sbin", "/usr/sbin", "/sbin")
_POLICY = Path("/usr/sbin/policy-rc.d")
_POLICY_TEXT = "#!/bin/sh\n# Made by diffusion-operator for as long as it installs packages.\nexit 101\n"
_LOCK_SECONDS = 600  # a fresh machine updates itself in the background


def extend_path() -> None:
    """Make programs in sbin findable: a plain user's PATH, or a CI's, may lack it."""
    known = os.environ.get("PATH", "").split(os.pathsep)
    os.environ["PATH"] = os.pathsep.join([*known, *(folder for folder in _ADMINISTRATION if folder not in known)])


def missing(packages: Sequence[str]) -> list[str]:
    """Those of `packages` that are not installed."""
    command = ["dpkg-query", "--show", "--showformat=${Package} ${db:Status-Status}\n", *packages]
    answer = subprocess.run(command, capture_output=True, text=True, check=False).stdout
    installed = {line.split()[0] for line in answer.splitlines() if line.endswith(" installed")}
    return [package for package in packages if package not in installed]


def ensure(packages: Sequence[str]) -> None:
    """Install those of `packages` that are missing."""
    if shutil.which("apt-get") is None or shutil.which("dpkg-query") is None:
        raise MissingPrerequisiteError(
            "this is not Debian (no apt-get): use Debian 12, or set KUBE_CONTEXT to a cluster that is there already"
        )
    wanted = missing(packages)
    if not wanted and not _policy_left_behind():
        return
    if os.geteuid() != 0:
        if not wanted:
            return
        raise MissingPrerequisiteError(
            f"not root, and these packages are missing: run `apt-get install {' '.join(wanted)}`"
        )
    with exclusive(paths.cache() / "packages.lock", purpose="install Debian packages"):
        if _policy_left_behind():
            _POLICY.unlink()  # of an installation that was killed: nobody else's services would ever start again
        if wanted := missing(packages):
            _install(wanted)


def _install(wanted: Sequence[str]) -> None:
    with Step(f"install {' '.join(wanted)}") as step:
        command = [
            "apt-get",
            "install",
            "--yes",
            "--no-install-recommends",
            "-o",
            f"DPkg::Lock::Timeout={_LOCK_SECONDS}",
        ]
        install = [*command, *wanted]
        if not _succeeds(install, step):
            # The package lists of a fresh machine are empty or old.
            step.detail = "updating the package lists"
            _succeeds(["apt-get", "update"], step)
            if not _succeeds(install, step):
                raise ClusterError(f"apt-get could not install {' '.join(wanted)}: {step.detail}")
        step.detail = ""


def _policy_left_behind() -> bool:
    try:
        return _POLICY.read_text() == _POLICY_TEXT
    except (OSError, UnicodeDecodeError):
        return False


def _succeeds(command: list[str], step: Step) -> bool:
    environment = {**os.environ, "DEBIAN_FRONTEND": "noninteractive"}
    # A package's service must not start on the host (docker-registry and prometheus bring one).
    made = not _POLICY.exists()
    if made:
        _POLICY.write_text(_POLICY_TEXT)
        _POLICY.chmod(0o755)
    try:
        done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
    finally:
        if made:
            _POLICY.unlink(missing_ok=True)
    if done.returncode != 0:
        step.detail = " ".join(done.stderr.split())[-300:]
    return done.returncode == 0
