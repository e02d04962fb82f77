"""The proxies, each in front of the same stub."""

import json
import socket
import sys
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from string import Template

from benchmarks import paths
from benchmarks.gateway import environment, pace
from benchmarks.load import Snapshot
from benchmarks.peers.placement import Cores, Placement
from benchmarks.peers.processes import Pinned

_HERE = Path(__file__).parent
_START_SECONDS = 120.0
_ENVIRONMENT = {"LD_PRELOAD": ""}  # peers' processes compute; these do not
_PLACEMENT = Placement.of(Cores.ONE)
_STUB_PLACEMENT = Placement(server_cpus=_PLACEMENT.client_cpus, client_cpus=_PLACEMENT.client_cpus)


@dataclass(frozen=True)
class Proxy:
    """A proxy that runs, or the stub itself, which has no process that counts."""

    url: str
    process: Pinned | None
    model: str = pace.MODEL

    def cpu_seconds(self) -> float:
        """Of its whole process tree, since its start."""
        return Snapshot.take([self.process.pid]).measured if self.process else 0.0


@contextmanager
def started(*names: str) -> Iterator[tuple[Mapping[str, Proxy], list[int]]]:
    """Those called so (`direct` is always there), by name, and the processes that work for the benchmark."""
    stub = Pinned.start(
        "gateway-stub",
        [sys.executable, "-m", "benchmarks.gateway.stub"],
        placement=_STUB_PLACEMENT,
        environment=_ENVIRONMENT,
    )
    processes = [stub]
    try:
        ports = json.loads(stub.read_line(what="its ports", seconds=_START_SECONDS))
        proxies = {"direct": Proxy(f"http://127.0.0.1:{ports['http']}", None)}
        for name in names:
            process, port = _STARTS[name](ports)
            processes.append(process)
            process.wait_until(lambda: _listens(port), what="open port", seconds=_START_SECONDS)  # noqa: B023 - called at once
            proxies[name] = Proxy(f"http://127.0.0.1:{port}", process)
        yield proxies, [process.pid for process in processes]
    finally:
        for process in reversed(processes):
            process.stop()


def _ours(ports: Mapping[str, int]) -> tuple[Pinned, int]:
    kubeconfig = _write("kubeconfig.json", _HERE / "kubeconfig.json", api=ports["api"])
    port, admin = _free_port(), _free_port()
    command = [
        *(sys.executable, "-m", "diffusion_gateway", "run", "--host=127.0.0.1", f"--kubeconfig={kubeconfig}"),
        *(f"--port={port}", f"--admin-port={admin}"),
    ]
    return _proxy("ours", command), port


def _litellm(ports: Mapping[str, int]) -> tuple[Pinned, int]:
    config = _write("litellm.yaml", _HERE / "litellm.yaml", model=pace.MODEL, port=ports["http"])
    port = _free_port()
    command = [
        *(str(environment.program("litellm")), "--config", str(config), "--host", "127.0.0.1", "--port", str(port)),
        *("--num_workers", "1", "--telemetry", "False"),
    ]
    return _proxy("litellm", command), port


def _envoy(ports: Mapping[str, int]) -> tuple[Pinned, int]:
    port = _free_port()
    config = _write("envoy.yaml", _HERE / "envoy.yaml", port=port, upstream=ports["http"])
    command = [
        *(str(environment.program("envoy")), "--config-path", str(config), "--concurrency", "1"),
        *("--disable-hot-restart", "--log-level", "warning"),
    ]
    return _proxy("envoy", command), port


_STARTS: Mapping[str, Callable[[Mapping[str, int]], tuple[Pinned, int]]] = {
    "ours": _ours,
    "litellm": _litellm,
    "envoy": _envoy,
}


def _proxy(name: str, command: list[str]) -> Pinned:
    return Pinned.start(f"gateway-{name}", command, placement=_PLACEMENT, environment=_ENVIRONMENT, speaks_lines=False)


def _write(name: str, template: Path, **values: object) -> Path:
    paths.RUN.mkdir(parents=True, exist_ok=True)
    file = paths.RUN / name
    file.write_text(Template(template.read_text()).substitute({key: str(value) for key, value in values.items()}))
    return file


def _free_port() -> int:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        port: int = taken.getsockname()[1]
        return port


def _listens(port: int) -> bool:
    with socket.socket() as attempt:
        attempt.settimeout(1)
        return attempt.connect_ex(("127.0.0.1", port)) == 0
