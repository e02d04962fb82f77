"""A real Prometheus as a local process that scrapes twice a second."""

import socket
import subprocess
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import httpx2
import yaml

from cluster import prometheus
from tests.prometheus.exporter import Exporter


class Server:
    """Prometheus on loopback, and what it scrapes."""

    def __init__(self, folder: Path) -> None:
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            self.address = f"127.0.0.1:{free.getsockname()[1]}"
        self.url = f"http://{self.address}"
        self._folder = folder
        self._jobs: list[dict[str, Any]] = []
        self._process: subprocess.Popen[bytes] | None = None

    def start(self) -> None:
        self._write()
        command = [
            str(prometheus.ensure_program()),
            f"--config.file={self._folder / 'prometheus.yml'}",
            f"--storage.tsdb.path={self._folder / 'data'}",
            f"--web.listen-address={self.address}",
            "--web.enable-lifecycle",
            "--log.level=error",
        ]
        self._process = subprocess.Popen(command)
        until(self._is_ready)

    def stop(self) -> None:
        if self._process:
            self._process.terminate()
            self._process.wait(timeout=30)
            self._process = None

    def scrape(self, exporter: Exporter, *, job: str = "gateways", **labels: str) -> None:
        """Scrape a pod from now on; a pod's name comes as the label `pod`."""
        targets = {"targets": [exporter.address], "labels": labels}
        self._jobs.append({"job_name": f"{job}-{len(self._jobs)}", "static_configs": [targets]})
        self._write()
        httpx2.post(f"{self.url}/-/reload", trust_env=False).raise_for_status()
        self.catch_up(exporter)

    def catch_up(self, exporter: Exporter) -> None:
        """Wait until what the pod says now is stored."""
        seen = exporter.scrapes
        # A scrape is stored before the same job begins the next.
        jobs = sum(exporter.address in job["static_configs"][0]["targets"] for job in self._jobs)
        until(lambda: exporter.scrapes > seen + jobs)

    def query(self, promql: str) -> list[dict[str, Any]]:
        answer = httpx2.get(f"{self.url}/api/v1/query", params={"query": promql}, trust_env=False)
        result: list[dict[str, Any]] = answer.raise_for_status().json()["data"]["result"]
        return result

    def _write(self) -> None:
        config = {"global": {"scrape_interval": "500ms", "scrape_timeout": "500ms"}, "scrape_configs": self._jobs}
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
