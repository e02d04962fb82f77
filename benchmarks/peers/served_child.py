"""Our whole serving path on the loopback interface: `python -m benchmarks.peers.served_child CHECKPOINT CORES ROWS FOLDER`.

Triton with our engine, and the gateway before it, as real processes, told what they are by the operator's own code. Only the Kubernetes
API is played: the gateway watches a fake one that holds one DiffusionModel with one ready pod.
"""

import argparse
import asyncio
import signal
import socket
import sys
from collections.abc import Awaitable, Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

import aiohttp
from diffusion_operator.api.models import RevisionStatus, parse
from diffusion_operator.core.revision import wanted
from diffusion_operator.core.worker_config import files
from diffusion_worker.wire import MODEL_NAME

from benchmarks.errors import BenchmarkError
from benchmarks.peers.lines import Lines
from tests.gateway.fake_api import FakeApi

MODEL = "benchmark"
_START_SECONDS = 120.0
_END_SECONDS = 60.0
_MODELS = "/apis/serving.diffusion-operator.dev/v1alpha1/diffusionmodels"
_SLICES = "/apis/discovery.k8s.io/v1/endpointslices"
_KUBECONFIG = """\
apiVersion: v1
kind: Config
current-context: fake
contexts: [{{name: fake, context: {{cluster: fake, user: fake}}}}]
clusters: [{{name: fake, cluster: {{server: "http://127.0.0.1:{port}"}}}}]
users: [{{name: fake, user: {{}}}}]
"""


def resource(checkpoint: Path, *, cores: int, rows: int) -> dict[str, Any]:
    """The DiffusionModel. Its queue and its patience are large: everyone here takes all requests and refuses none.

    A spec must name a fallback; as no arm leads to one, nothing takes requests away from the diffusion model.
    """
    source = {"source": f"file://{checkpoint}"}
    return {
        "metadata": {
            "name": MODEL,
            "namespace": "default",
            "uid": "benchmark",
            "resourceVersion": "1",
            "creationTimestamp": "2026-01-01T00:00:00Z",
        },
        "spec": {
            "model": source,
            "fallback": {"model": source},
            "resources": {"cpu": cores},
            "limits": {"maxBatchSize": rows, "queueSize": 512, "requestTimeout": "10m"},
        },
    }


async def serve(checkpoint: Path, *, cores: int, rows: int, folder: Path, lines: Lines) -> None:
    """Start everything, tell the address, and end it all when the other side closes the pipe."""
    model = resource(checkpoint, cores=cores, rows=rows)
    revision = wanted(parse(model).spec, image="local").diffusion
    config = folder / "config"
    config.mkdir(parents=True, exist_ok=True)
    for name, text in files(MODEL, revision).items():
        (config / name).write_text(text)
    triton_http, triton_grpc, triton_metrics, public, admin = _free_ports(5)
    api = FakeApi()
    processes: list[asyncio.subprocess.Process] = []
    try:
        processes.append(
            await _start(
                *("diffusion_worker", "serve", "--config", str(config), "--repository", str(folder / "repository")),
                *("--address", "127.0.0.1", "--http-port", str(triton_http), "--grpc-port", str(triton_grpc)),
                *("--metrics-port", str(triton_metrics)),
            )
        )
        async with aiohttp.ClientSession() as session:
            await _until(
                lambda: _ok(session, f"http://127.0.0.1:{triton_http}/v2/models/{MODEL_NAME}/ready"), processes
            )
            await api.start()
            await _publish(api, model, revision, port=triton_grpc)
            kubeconfig = folder / "kubeconfig"
            kubeconfig.write_text(_KUBECONFIG.format(port=api.port))
            processes.append(
                await _start(
                    *("diffusion_gateway", "run", "--host", "127.0.0.1", "--port", str(public)),
                    *("--admin-port", str(admin), "--kubeconfig", str(kubeconfig), "--log-level", "warning"),
                )
            )
            url = f"http://127.0.0.1:{public}/v1"
            await _until(lambda: _ok(session, f"{url}/models/{MODEL}"), processes)
        lines.send({"ready": True, "url": url, "model": MODEL})
        await asyncio.to_thread(lambda: list(lines.received()))
    finally:
        for process in reversed(processes):
            with suppress(ProcessLookupError):
                process.send_signal(signal.SIGTERM)
            await asyncio.wait_for(process.wait(), _END_SECONDS)
        await api.stop()


async def _publish(api: FakeApi, model: dict[str, Any], revision: RevisionStatus, *, port: int) -> None:
    """What the operator and Kubernetes would say of a model with one ready pod."""
    service = f"{MODEL}-{revision.hash}"
    arm = {
        "role": "stable",
        "revision": revision.hash,
        "kind": "diffusion",
        "service": service,
        "port": port,
        "percent": 100,
    }
    endpoint_slice = {
        "metadata": {
            "name": f"{service}-1",
            "namespace": "default",
            "labels": {
                "kubernetes.io/service-name": service,
                "app.kubernetes.io/managed-by": "diffusion-operator",
            },
        },
        "addressType": "IPv4",
        "endpoints": [{"addresses": ["127.0.0.1"], "conditions": {"ready": True}}],
    }
    await api.put(_SLICES, endpoint_slice)
    await api.put(_MODELS, model | {"status": {"routes": {"generation": 1, "arms": [arm]}}})


async def _start(*arguments: str) -> asyncio.subprocess.Process:
    return await asyncio.create_subprocess_exec(sys.executable, "-m", *arguments, stdin=asyncio.subprocess.DEVNULL)


async def _until(condition: Callable[[], Awaitable[bool]], processes: list[asyncio.subprocess.Process]) -> None:
    async with asyncio.timeout(_START_SECONDS):
        while not await condition():
            for process in processes:
                if process.returncode is not None:
                    raise BenchmarkError(f"a part of the serving path has ended ({process.returncode})")
            await asyncio.sleep(0.1)


async def _ok(session: aiohttp.ClientSession, url: str) -> bool:
    try:
        async with session.get(url) as response:
            return response.status == 200
    except aiohttp.ClientError:
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


def main() -> None:
    """Run until the other side goes away."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("checkpoint", type=Path)
    parser.add_argument("cores", type=int)
    parser.add_argument("rows", type=int)
    parser.add_argument("folder", type=Path)
    options = parser.parse_args()
    asyncio.run(serve(options.checkpoint, cores=options.cores, rows=options.rows, folder=options.folder, lines=Lines()))


if __name__ == "__main__":
    main()
