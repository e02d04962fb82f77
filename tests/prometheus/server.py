"""A real Prometheus as a local process that scrapes twice a second."""

import socket
import subprocess
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import httpx2
import yaml

from cluster import prometheus
from tests.prometheus.exporter import Exporter


class Server:
    """Prometheus on loopback. Each of `pods` is scraped once for each set of labels it has there."""

    def __init__(self, folder: Path, pods: Mapping[str, Sequence[Mapping[str, str]]]) -> None:
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            self.address = f"127.0.0.1:{free.getsockname()[1]}"
        self.url = f"http://{self.address}"
        self.pods = {name: Exporter() for name in pods}
        self._labels = pods
        self._folder = folder
        self._process: subprocess.Popen[bytes] | None = None

    def start(self) -> None:
        self._write()
        command = [
            str(prometheus.ensure_program()),
            f"--config.file={self._folder / 'prometheus.yml'}",
            f"--storage.tsdb.path={self._folder / 'data'}",
            f"--web.listen-address={self.address}",
            "--log.level=error",
        ]
        self._process = subprocess.Popen(command)
        until(self._is_ready)

    def stop(self) -> None:
        if self._process:
            self._process.terminate()
            self._process.wait(timeout=30)
            self._process = None
        for pod in self.pods.values():
            pod.close()

    def catch_up(self) -> None:
        """Wait until what every pod says now is stored, by everyone who scrapes it."""
        scraped = {name: pod.tick() for name, pod in self.pods.items() if not pod.fails}
        until(lambda: all(self._has(name, tick) for name, tick in scraped.items()))

    def miss(self, pod: Exporter) -> None:
        """Wait until scrapes of a pod that fails have failed."""
        seen = pod.refused
        until(lambda: pod.refused >= seen + 2)

    def query(self, promql: str) -> list[dict[str, Any]]:
        answer = httpx2.get(f"{self.url}/api/v1/query", params={"query": promql}, trust_env=False)
        result: list[dict[str, Any]] = answer.raise_for_status().json()["data"]["result"]
        return result

    def _has(self, name: str, tick: int) -> bool:
        seen = self.query(f'count(scrape_tick{{instance="{self.pods[name].address}"}} >= {tick})')
        return bool(seen) and float(seen[0]["value"][1]) >= len(self._labels[name])

    def _write(self) -> None:
        jobs = [
            {
                "job_name": f"{name}-{n}",
                "static_configs": [{"targets": [self.pods[name].address], "labels": dict(labels)}],
            }
            for name, scrapes in self._labels.items()
            for n, labels in enumerate(scrapes)
        ]
        config = {"global": {"scrape_interval": "500ms", "scrape_timeout": "500ms"}, "scrape_configs": jobs}
        (self._folder / "prometheus.yml").write_text(yaml.safe_dump(config))

    def _is_ready(self) -> bool:
        try:
            return httpx2.get(f"{self.url}/-/ready", trust_env=False).status_code == 200
        except httpx2.TransportError:
            return False


def until(look: Callable[[], bool]) -> None:
    """Wait for something that comes by itself."""
    deadline = time.monotonic() + 60
    while not look():
        assert time.monotonic() < deadline, "waited 60 s in vain"
        time.sleep(0.05)
