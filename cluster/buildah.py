"""Runs buildah in a mount namespace of its own, with its storage in the user's cache folder.

All checkouts share the layers; the host's own container storage, hosts file and mounts stay as they are.
"""

import os
import re
import subprocess
import time
from collections.abc import Sequence
from pathlib import Path

from cluster import debian, paths
from cluster.errors import ClusterError
from cluster.progress import Step

# netavark: no build uses it, but a storage that was first used where it is installed asks for it ever after.
PACKAGES = ("buildah", "debootstrap", "iproute2", "mount", "netavark")
REGISTRY_NAME = "registry.local:5000"
_ATTEMPTS = 5
# Buildah runs a sealed copy of itself from memory. Where the kernel holds a page of the copy in that moment, it gives up.
_PASSING_FAULT = "sealing memfd copy"
_STORAGE = Path("/var/lib/containers")
_RUNTIME = Path("/run/containers")
_ENTER = """
set -e
mount --bind "$0" /var/lib/containers
mount -t tmpfs tmpfs /run/containers
mount --bind "$1" /etc/hosts
shift
exec "$@"
"""


def storage() -> Path:
    return paths.cache() / "containers"


def build(
    *,
    containerfile: Path,
    context: Path,
    reference: str,
    step: Step,
    arguments: Sequence[str] = (),
    volumes: Sequence[str] = (),
) -> None:
    """Build `reference` from `containerfile`, using the layers of earlier builds.

    `volumes` (`/host:/container:ro`) are there during the build and not in the image.
    """
    command = ["buildah", "bud", "--isolation", "chroot", "--network", "host", "--layers", "--format", "oci"]
    command += [f"--build-arg={argument}" for argument in arguments]
    command += [f"--volume={volume}" for volume in volumes]
    run([*command, "--file", str(containerfile), "--tag", reference, str(context)], step)


def push(reference: str, destination: str, step: Step, *, registry_address: str | None = None) -> None:
    """Push to `destination`. With `registry_address` its host is the local registry, which speaks plain HTTP.

    The fastest compression: here the network is memory, and the CPU is what one waits for.
    """
    command = ["buildah", "push", "--compression-format", "zstd", "--compression-level", "1"]
    if registry_address is not None:
        command.append("--tls-verify=false")
    run([*command, reference, f"docker://{destination}"], step, registry_address=registry_address)


def image_exists(reference: str) -> bool:
    """Whether the storage holds `reference`."""
    command = _entered(["buildah", "inspect", "--type", "image", "--format", "{{.FromImageID}}", reference], None)
    return subprocess.run(command, capture_output=True, check=False).returncode == 0


def remove(reference: str) -> None:
    """Forget `reference`; layers that others use stay."""
    subprocess.run(_entered(["buildah", "rmi", reference], None), capture_output=True, check=False)


def run(command: Sequence[str], step: Step, *, registry_address: str | None = None) -> None:
    """Run `command` in the namespace; show its last line as the step's detail, and all of it in the error."""
    debian.ensure(PACKAGES)
    for attempt in range(_ATTEMPTS):
        status, lines = _run_once(_entered(command, registry_address), step)
        if status == 0:
            return
        if attempt + 1 == _ATTEMPTS or not any(_PASSING_FAULT in line for line in lines):
            break
        time.sleep(1)
    tail = "\n  ".join(lines)
    raise ClusterError(f"{step.title}: failed with status {status}; the last lines were\n  {tail}")


def _run_once(command: Sequence[str], step: Step) -> tuple[int, list[str]]:
    lines: list[str] = []
    with subprocess.Popen(
        command,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        errors="replace",
        env={**os.environ, "STORAGE_DRIVER": "overlay"},
    ) as process:
        assert process.stdout is not None  # noqa: S101 - for the type checker: it is a pipe
        for line in process.stdout:
            if line.strip():
                lines = [*lines[-30:], line.rstrip()]
            if re.match(r"STEP \d+/\d+|Copying|Writing", line):
                step.detail = " ".join(line.split())[:90]
    step.detail = ""
    return process.returncode, lines


def _entered(command: Sequence[str], registry_address: str | None) -> list[str]:
    """`command` inside the namespace. There `registry.local` is always the local registry, whatever its address is
    this time, so that buildah knows again which layers the registry has."""
    for folder in (storage(), _STORAGE, _RUNTIME):
        folder.mkdir(parents=True, exist_ok=True)
    hosts = paths.cache() / "hosts"
    alias = f"{registry_address.partition(':')[0]} {REGISTRY_NAME.partition(':')[0]}\n" if registry_address else ""
    hosts.write_text(Path("/etc/hosts").read_text() + "\n" + alias)
    enter = ["unshare", "--mount", "--propagation", "private", "--", "sh", "-c", _ENTER]
    return [*enter, str(storage()), str(hosts), *command]
