"""The operator as its own process against the test's API server."""

import os
import socket
import subprocess
import sys
import tempfile
import urllib.error
import urllib.request
from pathlib import Path
from types import TracebackType
from typing import Self

from tests.api.server import Server, until

IMAGE = "registry.test/diffusion-worker:1"
URL = "http://gateway.test:8080/v1"


class OperatorProcess:
    """Runs within the block; its log is shown when it ends before it comes up."""

    def __init__(self, server: Server, *, watch: str | None = None, image: str = IMAGE, sizing: str = "off") -> None:
        self._server = server
        self._watch = watch
        self._image = image
        # Off: most tests are about what comes once pods are made, and nobody here runs Jobs.
        self._sizing = sizing
        self._port = _free_port()
        self._process: subprocess.Popen[bytes] | None = None
        self._log = tempfile.TemporaryFile()  # noqa: SIM115 - closed in __exit__

    def __enter__(self) -> Self:
        arguments = {
            "worker-image": self._image,
            "namespace": "default",
            "gateway-url": URL,
            "kubeconfig": str(self._server.plane.kubeconfig),
            "port": str(self._port),
            "sizing": self._sizing,
        }
        if self._watch:
            arguments["watch-namespace"] = self._watch
        self._process = subprocess.Popen(
            [
                sys.executable,
                "-m",
                "diffusion_operator",
                "run",
                *(f"--{key}={value}" for key, value in arguments.items()),
            ],
            stdout=self._log,
            stderr=self._log,
            cwd=Path(tempfile.gettempdir()),
            env={**os.environ, "OMP_NUM_THREADS": "1"},
        )
        try:
            until(self._is_ready, what="the operator is ready", seconds=180)
        except BaseException:
            self.__exit__(None, None, None)
            raise
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        if self._process and self._process.poll() is None:
            self.stop()
        self._log.close()

    def get(self, path: str) -> str:
        """Text of one of its pages."""
        with urllib.request.urlopen(f"http://127.0.0.1:{self._port}{path}", timeout=5) as answer:
            return str(answer.read().decode())

    def log(self) -> str:
        self._log.seek(0)
        return self._log.read().decode()

    def stop(self) -> int:
        """Send SIGTERM and wait. Returns the exit status."""
        assert self._process is not None
        self._process.terminate()
        return self._process.wait(timeout=30)

    def kill(self) -> None:
        assert self._process is not None
        self._process.kill()
        self._process.wait(timeout=30)

    def writes(self) -> float:
        """How many writes it made so far, its Lease aside."""
        lines = [
            line
            for line in self.get("/metrics").splitlines()
            if line.startswith("diffusion_operator_writes_total") and 'kind="Lease"' not in line
        ]
        return sum(float(line.rsplit(" ", 1)[1]) for line in lines)

    def passes(self) -> float:
        """How many passes it made so far, however they ended."""
        lines = self.get("/metrics").splitlines()
        return sum(
            float(line.rsplit(" ", 1)[1]) for line in lines if line.startswith("diffusion_operator_reconciles_total")
        )

    def _is_ready(self) -> bool:
        assert self._process is not None
        if self._process.poll() is not None:
            raise AssertionError(f"the operator ended with {self._process.returncode}: {self.log()}")
        try:
            return self.get("/readyz") == "ok\n"
        except (urllib.error.URLError, OSError):
            return False


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])
