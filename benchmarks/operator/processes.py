"""The operator's process and the one with its surroundings, and what the operator costs."""

import os
import socket
import sys
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from json import loads
from pathlib import Path

from benchmarks.load import ProcessTimes
from benchmarks.peers.placement import Cores, Placement
from benchmarks.peers.processes import Pinned

_START_SECONDS = 120.0
_IMAGE = "registry.test/diffusion-worker:1"
OURS_ALONE = Placement.of(Cores.ONE)
_OTHERS = Placement(server_cpus=OURS_ALONE.client_cpus, client_cpus=OURS_ALONE.client_cpus)
_ENVIRONMENT = {"LD_PRELOAD": ""}


@dataclass(frozen=True)
class Cost:
    """Of the process up to now. Memory is what is resident, and the most that ever was."""

    cpu_seconds: float
    memory_mib: float
    peak_mib: float


@dataclass(frozen=True)
class Operator:
    """A running operator. `metrics` is the port of loopback at which it has /metrics."""

    pid: int
    metrics: int

    def cost(self) -> Cost:
        """From /proc."""
        folder = Path("/proc") / str(self.pid)
        lines = (line.partition(":") for line in (folder / "status").read_text().splitlines())
        fields = {name: value.split() for name, _, value in lines}
        return Cost(
            cpu_seconds=ProcessTimes.parse((folder / "stat").read_text()).seconds,
            memory_mib=int(fields["VmRSS"][0]) / 1024,
            peak_mib=int(fields["VmHWM"][0]) / 1024,
        )


@contextmanager
def our_operator(admin: Path, operator: Path) -> Iterator[Operator]:
    """Surroundings with the kubeconfig `admin`, and an operator with a kubeconfig of its own."""
    around = Pinned.start(
        "operator-surroundings",
        [sys.executable, "-m", "benchmarks.operator.surroundings", str(admin)],
        placement=_OTHERS,
        environment=_ENVIRONMENT,
    )
    processes = [around]
    try:
        port = loads(around.read_line(what="its port", seconds=_START_SECONDS))["port"]
        health = free_port()
        process = Pinned.start(
            "operator",
            [
                *(sys.executable, "-m", "diffusion_operator", "run", f"--worker-image={_IMAGE}", "--namespace=default"),
                *("--gateway-url=http://gateway.test/v1", f"--kubeconfig={operator}", f"--port={health}"),
                *("--sizing=off", f"--prometheus-url=http://127.0.0.1:{port}"),
            ],
            placement=OURS_ALONE,
            environment=_ENVIRONMENT | {"HOSTNAME": os.uname().nodename},
            speaks_lines=False,
        )
        processes.append(process)
        process.wait_until(lambda: answers(health, "/readyz"), what="readiness", seconds=_START_SECONDS)
        yield Operator(process.pid, metrics=health)
    finally:
        for one in reversed(processes):
            one.stop()


def answers(port: int, path: str) -> bool:
    """Whether a page of loopback says that all is well."""
    try:
        with urllib.request.urlopen(f"http://127.0.0.1:{port}{path}", timeout=2) as answer:
            answer.read()
            return bool(answer.status == 200)
    except OSError:
        return False


def free_port() -> int:
    """A port of loopback that nobody has."""
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        port: int = taken.getsockname()[1]
        return port
