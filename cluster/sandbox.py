"""The namespaces that the cluster lives in, and its link to the host.

The supervisor is process 1 of a PID namespace of its own: when it ends, however it ends, the kernel ends every other
process in there, and with the last of them go all mounts, the network namespace and the link. Nothing has to be
cleaned up but files and cgroups.
"""

import ctypes
import os
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

from cluster import paths
from cluster.addresses import Addresses
from cluster.errors import ClusterError, MissingPrerequisiteError
from cluster.paths import StateFolder

_CLONE_NEWNS, _CLONE_NEWPID, _CLONE_NEWNET = 0x00020000, 0x20000000, 0x40000000
_NODE_INTERFACE = "eth0"


def fork_into_new_pid_namespace() -> int:
    """Fork; the child is process 1 of a new PID namespace. Returns the child's id to the parent, 0 to the child."""
    _unshare(_CLONE_NEWPID)
    return os.fork()


def enter_new_mount_and_network_namespaces() -> None:
    """Leave the host's mounts and interfaces."""
    _unshare(_CLONE_NEWNS | _CLONE_NEWNET)


def arrange_mounts(state: StateFolder) -> None:
    """Give the namespace its own /proc, /run and /var, so that nothing is written to the host's.

    Nothing that is mounted from now on is seen by the host, but kubelet's mounts are seen by containers.
    """
    run("mount", "--make-rprivate", "/")
    run("mount", "--make-rshared", "/")
    run("mount", "-t", "proc", "proc", "/proc")
    # Checkout, Python or cache may lie below what is about to be covered.
    kept = [folder for folder in _needed_folders() if folder.is_relative_to("/run") or folder.is_relative_to("/var")]
    handles = {folder: os.open(folder, os.O_PATH | os.O_DIRECTORY) for folder in kept}
    var = state.root / "var"
    for name in ("lib", "log", "tmp", "cache"):
        (var / name).mkdir(parents=True, exist_ok=True)
    if not (var / "run").is_symlink():
        (var / "run").symlink_to("/run")
    run("mount", "-t", "tmpfs", "-o", "mode=755", "tmpfs", "/run")
    run("mount", "--bind", str(var), "/var")
    for folder, handle in handles.items():
        if not folder.exists():
            folder.mkdir(parents=True)
            run("mount", "--rbind", f"/proc/self/fd/{handle}", str(folder), keep=[handle])
        os.close(handle)
    os.environ["TMPDIR"] = "/var/tmp"  # noqa: S108 - it is the cluster's own


def connect_host(addresses: Addresses, *, interface: str, pid: int) -> None:
    """On the host: link it to the network namespace of process `pid` and route the cluster's network there."""
    peer = ["peer", "name", _NODE_INTERFACE, "netns", str(pid)]
    run("ip", "link", "add", interface, "type", "veth", *peer)
    run("ip", "address", "add", f"{addresses.host}/{addresses.link_prefix}", "dev", interface)
    run("ip", "link", "set", interface, "up")
    run("ip", "route", "add", str(addresses.whole), "via", addresses.node, "dev", interface)


def configure_node_network(addresses: Addresses) -> None:
    """In the network namespace: bring its interfaces up and let it route."""
    run("ip", "link", "set", "lo", "up")
    run("ip", "address", "add", f"{addresses.node}/{addresses.link_prefix}", "dev", _NODE_INTERFACE)
    run("ip", "link", "set", _NODE_INTERFACE, "up")
    run("ip", "route", "add", "default", "via", addresses.host)
    settings = Path("/proc/sys/net/ipv4")
    (settings / "ip_forward").write_text("1")
    # When the supervisor is killed, connections whose other end died with it must not keep the namespace, and with it
    # the link, for the minutes that TCP would go on trying to close them.
    (settings / "tcp_orphan_retries").write_text("1")
    (settings / "tcp_fin_timeout").write_text("2")


def remove_link(interface: str) -> None:
    """Remove the host's end of the link where it is there."""
    if Path("/sys/class/net", interface).exists():
        subprocess.run(["ip", "link", "delete", interface], capture_output=True, check=False)


def run(*command: str, keep: Sequence[int] = ()) -> None:
    """Run a short command, with its complaint as the error."""
    done = subprocess.run(command, capture_output=True, text=True, check=False, pass_fds=keep)
    if done.returncode != 0:
        raise ClusterError(f"`{' '.join(command)}` failed: {done.stderr.strip() or f'status {done.returncode}'}")


def _needed_folders() -> list[Path]:
    return [paths.REPOSITORY, paths.cache(), Path(sys.prefix), Path(sys.base_prefix)]


def _unshare(flags: int) -> None:
    libc = ctypes.CDLL(None, use_errno=True)
    if libc.unshare(flags) != 0:
        reason = os.strerror(ctypes.get_errno())
        raise MissingPrerequisiteError(
            f"this machine refuses new namespaces ({reason}): run as root, in a container with --privileged"
        )
