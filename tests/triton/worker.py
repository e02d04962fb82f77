"""A worker as a local process: our launcher, a real Triton, a tiny checkpoint."""

import asyncio
import json
import os
import signal
import socket
import subprocess
import sys
import time
import urllib.error
import urllib.request
from collections.abc import AsyncIterator, Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Self

import numpy as np
import tritonclient.grpc.aio as triton
from diffusion_worker.triton.processes import Process, children_of
from diffusion_worker.wire import (
    EVENT,
    EVENT_TENSOR,
    MODEL_NAME,
    REQUEST_TENSOR,
    BlockEvent,
    DraftEvent,
    ErrorEvent,
    FinishEvent,
    ScoreEvent,
)

Event = BlockEvent | DraftEvent | FinishEvent | ScoreEvent | ErrorEvent
START_SECONDS = 300.0  # alone it takes 6; on a machine that also trains and compiles, minutes
REVISION = "0a1b2c3d"
SLOTS = 2
QUEUE = 3
# More than the tiny checkpoint needs: what is planned holds no request up.
PLANNED = {"weights": 64 << 20, "kv": 256 << 20, "step": 1 << 30, "reserve": 3 << 30}
BUDGET = 8 << 30
CONFIG_PBTXT = f"""
backend: "dlm"
max_batch_size: {SLOTS}
instance_group [ {{ count: 1 kind: KIND_CPU }} ]
dynamic_batching {{
  max_queue_delay_microseconds: 0
  default_queue_policy {{
    timeout_action: REJECT default_timeout_microseconds: 60000000 allow_timeout_override: true max_queue_size: {QUEUE}
  }}
}}
"""


def write_config(folder: Path, *, checkpoint: Path, **settings: object) -> Path:
    """A folder as the operator's ConfigMap is mounted."""
    folder.mkdir(parents=True, exist_ok=True)
    model = {
        "kind": "diffusion",
        "model": "tiny",
        "revision": REVISION,
        "source": f"file://{checkpoint}",
        "path": str(checkpoint),
        "max_batch_size": SLOTS,
        # Never confident: each canvas takes all its steps, so that requests last long enough to be disturbed.
        "sampler": {"max_denoising_steps": 32, "confidence_threshold": 0.0},
    }
    (folder / "model.json").write_text(json.dumps(model | settings))
    (folder / "config.pbtxt").write_text(CONFIG_PBTXT)
    return folder


@dataclass
class Worker:
    """A running `diffusion-worker serve`."""

    process: subprocess.Popen[bytes]
    log: Path
    http: str
    grpc: str
    metrics_url: str

    @classmethod
    def start(cls, *, config: Path, folder: Path, **flags: object) -> Self:
        """Start it on free ports of the loopback interface; does not wait until it is ready."""
        folder.mkdir(parents=True, exist_ok=True)
        http, grpc, metrics = _free_ports(3)
        command = [sys.executable, "-m", "diffusion_worker", "serve", "--config", str(config)]
        command += ["--repository", str(folder / "run"), "--address", "127.0.0.1"]
        command += ["--http-port", str(http), "--grpc-port", str(grpc), "--metrics-port", str(metrics)]
        command += [f"--{name.replace('_', '-')}={value}" for name, value in flags.items()]
        log = folder / "worker.log"
        with log.open("wb") as output:
            process = subprocess.Popen(
                command, stdout=output, stderr=subprocess.STDOUT, env=os.environ | {"PYTHONWARNINGS": ""}
            )
        return cls(
            process=process,
            log=log,
            http=f"http://127.0.0.1:{http}",
            grpc=f"127.0.0.1:{grpc}",
            metrics_url=f"http://127.0.0.1:{metrics}/metrics",
        )

    def wait_until_ready(self) -> None:
        """Return once the model is ready; fail with the log when it does not become so."""
        self._wait(lambda: _ok(f"{self.http}/v2/models/{MODEL_NAME}/ready"), "the model to be ready")

    def wait_for_log_line(self, **fields: object) -> dict[str, Any]:
        """The first structured line of its log that has all of `fields`."""
        self._wait(lambda: bool(self._log_lines(fields)), f"a line with {fields}")
        return self._log_lines(fields)[0]

    def _log_lines(self, fields: dict[str, object]) -> list[dict[str, Any]]:
        written = self.log.read_text().splitlines(keepends=True)
        lines = [json.loads(text) for text in written if text.startswith("{") and text.endswith("}\n")]
        return [line for line in lines if fields.items() <= line.items()]

    def wait_for_exit(self, seconds: float) -> int:
        """Its exit code."""
        return self.process.wait(seconds)

    def stub(self) -> Process:
        """The python stub that has our engine."""
        (triton_process,) = children_of(self.process.pid)
        (stub,) = [child for child in children_of(triton_process.pid) if child.name.startswith("triton_python")]
        return stub

    def metric(self, name: str, **labels: str) -> float:
        """Sum of the samples of `name` that have all of `labels`."""
        with urllib.request.urlopen(self.metrics_url, timeout=5) as answer:  # noqa: S310 (loopback)
            lines = answer.read().decode().splitlines()
        wanted = [f'{key}="{value}"' for key, value in labels.items()]
        return sum(
            float(line.rpartition(" ")[2])
            for line in lines
            if line.partition("{")[0] == name and all(label in line for label in wanted)
        )

    def wait_for_metric(self, name: str, value: float, **labels: str) -> None:
        """Wait until a metric has a value."""
        self._wait(lambda: self.metric(name, **labels) == value, f"{name}{labels} to be {value}")

    def stop(self) -> None:
        """End it, whatever state it is in."""
        if self.process.poll() is None:
            self.process.send_signal(signal.SIGTERM)
            try:
                self.process.wait(30)
            except subprocess.TimeoutExpired:
                for child in children_of(self.process.pid):
                    os.kill(child.pid, signal.SIGKILL)
                self.process.kill()
                self.process.wait()

    def _wait(self, condition: Callable[[], bool], what: str) -> None:
        deadline = time.monotonic() + START_SECONDS
        while not condition():
            assert self.process.poll() is None, f"the worker has ended:\n{self.log.read_text()}"
            assert time.monotonic() < deadline, f"gave up waiting for {what}:\n{self.log.read_text()}"
            time.sleep(0.05)


class Call:
    """One request over gRPC, as the gateway makes it. `answer` reads it to its natural end."""

    def __init__(
        self,
        worker: Worker,
        payload: str | bytes | dict[str, Any],
        *,
        priority: int = 0,
        parameters: dict[str, str] | None = None,
    ) -> None:
        self._priority = priority
        self._parameters = parameters
        self._client = triton.InferenceServerClient(worker.grpc)
        self._payload = json.dumps(payload) if isinstance(payload, dict) else payload
        self._stream: Any = self._client.stream_infer(self._requests())

    async def _requests(self) -> AsyncIterator[dict[str, Any]]:
        tensor = triton.InferInput(REQUEST_TENSOR, [1, 1], "BYTES")
        data = self._payload.encode() if isinstance(self._payload, str) else self._payload
        tensor.set_data_from_numpy(np.array([[data]], dtype=np.object_))
        yield {
            "model_name": MODEL_NAME,
            "inputs": [tensor],
            "request_id": "test",
            "priority": self._priority,
            "parameters": self._parameters,
        }

    async def next(self) -> Event:
        """The next event; raises what Triton answers instead."""
        result, error = await asyncio.wait_for(anext(self._stream), 300)
        if error is not None:
            raise error
        return EVENT.validate_json(result.as_numpy(EVENT_TENSOR).item())

    async def answer(self) -> list[Event]:
        """All events that are left."""
        events = []
        try:
            while True:
                events.append(await self.next())
        except StopAsyncIteration:
            return events
        finally:
            await self._client.close()

    async def cancel(self) -> None:
        """Go away, as a client does that has lost interest."""
        self._stream.cancel()
        await self._client.close()


def request(**settings: object) -> dict[str, object]:
    """A short request."""
    return {"request_id": "r", "prompt": "the fox", "max_tokens": 24, "seed": 1} | settings


def long_request(**settings: object) -> dict[str, object]:
    """A request that takes some seconds."""
    return request(max_tokens=480) | settings


def _ok(url: str) -> bool:
    try:
        with urllib.request.urlopen(url, timeout=5) as answer:  # noqa: S310 (loopback)
            return bool(answer.status == 200)
    except (OSError, urllib.error.URLError):
        return False


def _free_ports(count: int) -> list[int]:
    sockets = [socket.socket() for _ in range(count)]
    try:
        for each in sockets:
            each.bind(("127.0.0.1", 0))
        return [each.getsockname()[1] for each in sockets]
    finally:
        for each in sockets:
            each.close()
