"""Ways to harm a part of the throw-away cluster. Each reaches only processes and packets of this checkout's cluster."""

import os
import signal
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

from cluster import lifecycle

TRITON, STUB = "tritonserver", "triton_python"
_API_PORT = "6443"


def processes(pod: dict[str, Any], *, name: str = "") -> list[int]:
    """Ids on this machine of the processes of a pod whose name begins so, the pause process left out."""
    found = []
    for entry in Path("/proc").glob("[0-9]*"):
        with suppress(OSError):  # it ended while we looked
            own = (entry / "comm").read_text().strip()
            if pod["metadata"]["uid"] in (entry / "cgroup").read_text() and own != "pause" and own.startswith(name):
                found.append(int(entry.name))
    return found


def send(pod: dict[str, Any], number: signal.Signals, *, name: str = "") -> None:
    """Send a signal to processes of a pod."""
    found = processes(pod, name=name)
    assert found, f"{pod['metadata']['name']} has no process {name}"
    for process in found:
        with suppress(ProcessLookupError):
            os.kill(process, number)


def kill(pod: dict[str, Any], *, name: str = "") -> None:
    """End processes of a pod as the kernel does when memory runs out: at once, without a word to anybody."""
    send(pod, signal.SIGKILL, name=name)


@contextmanager
def frozen(pod: dict[str, Any], *, name: str = TRITON) -> Iterator[None]:
    """Stop processes of a pod for the time of the block: its connections stay, and nothing answers."""
    send(pod, signal.SIGSTOP, name=name)
    try:
        yield
    finally:
        if processes(pod, name=name):
            send(pod, signal.SIGCONT, name=name)


@contextmanager
def api_server_away() -> Iterator[None]:
    """Break all connections to the API server, and refuse new ones, for the time of the block."""
    rule = ["INPUT", "--protocol", "tcp", "--dport", _API_PORT, "--jump", "REJECT", "--reject-with", "tcp-reset"]
    _iptables("--insert", *rule)
    try:
        yield
    finally:
        _iptables("--delete", *rule)


def _iptables(*arguments: str) -> None:
    subprocess.run(lifecycle.inside(["iptables", "--wait", *arguments]), check=True, capture_output=True, timeout=60)
