"""The real gateway over real HTTP, between a fake API server and fake worker pods."""

import asyncio
import contextlib
from collections.abc import AsyncIterator, Callable
from dataclasses import dataclass, field, replace
from typing import Any

import httpx2
from diffusion_gateway.gateway import Gateway
from diffusion_gateway.routes import ServiceKey
from diffusion_gateway.server import listen, run
from diffusion_gateway.settings import Settings
from diffusion_gateway.table_source import TableSource
from diffusion_gateway.watch import Timing
from kubernetes.aio import client
from openai import AsyncOpenAI

from tests.gateway.fake_api import FakeApi
from tests.gateway.fake_triton import FakeTriton, Script

MODELS = "/apis/serving.diffusion-operator.dev/v1alpha1/diffusionmodels"
SLICES = "/apis/discovery.k8s.io/v1/endpointslices"


async def eventually(condition: Callable[[], bool], *, seconds: float = 60.0) -> None:
    """Wait until something is true; fails after `seconds`, which a busy machine may need."""
    async with asyncio.timeout(seconds):
        while not condition():  # noqa: ASYNC110 - what is waited for has no event
            await asyncio.sleep(0.01)


@dataclass
class Arm:
    """An arm with its pods."""

    role: str
    kind: str
    revision: str
    percent: int
    port: int
    pods: list[FakeTriton]

    @property
    def service(self) -> str:
        return f"story-{self.revision}"

    def route(self) -> dict[str, Any]:
        return {
            "role": self.role,
            "revision": self.revision,
            "kind": self.kind,
            "service": self.service,
            "port": self.port,
            "percent": self.percent,
        }


def model_resource(
    *arms: Arm, name: str = "story", namespace: str = "default", generation: int = 1, **spec: Any
) -> dict[str, Any]:
    return {
        "metadata": {"name": name, "namespace": namespace, "creationTimestamp": "2026-12-01T00:00:00Z"},
        "spec": spec,
        "status": {"routes": {"generation": generation, "arms": [arm.route() for arm in arms]}},
    }


def slice_resource(service: str, *addresses: str, namespace: str = "default", ready: bool = True) -> dict[str, Any]:
    return {
        "metadata": {
            "name": f"{service}-abcde",
            "namespace": namespace,
            "labels": {
                "kubernetes.io/service-name": service,
                "app.kubernetes.io/managed-by": "diffusion-operator",
            },
        },
        "addressType": "IPv4",
        "endpoints": [{"addresses": [address], "conditions": {"ready": ready}} for address in addresses] or None,
    }


@dataclass
class Stack:
    """Everything of one test."""

    settings: Settings
    api: FakeApi = field(default_factory=FakeApi)
    stop: asyncio.Event = field(default_factory=asyncio.Event)
    pods: list[FakeTriton] = field(default_factory=list)
    random: float = 0.0
    """Draws arms."""
    sample: float = 1.0
    """Draws answers that AR answers too; 1 draws none."""
    gateway: Gateway = field(init=False)
    url: str = ""
    admin_url: str = ""
    http: httpx2.AsyncClient = field(init=False)
    openai: AsyncOpenAI = field(init=False)
    running: "asyncio.Task[None]" = field(init=False)

    async def arm(self, role: str, *scripts: Script, kind: str = "", revision: str = "", percent: int = 0) -> Arm:
        """Start pods, one per script, each at its own loopback address and all at one port, and make them endpoints."""
        kind = kind or ("ar" if role == "fallback" else "diffusion")
        port, pods = 0, []
        for number, script in enumerate(scripts, start=2):
            pod = FakeTriton(script)
            await pod.start(f"127.0.0.{number}", port)
            port = pod.port
            pods.append(pod)
        self.pods += pods
        made = Arm(role, kind, revision or f"{role[:4]}0001", percent, port or 1, pods)
        addresses = [f"127.0.0.{number}" for number in range(2, 2 + len(pods))]
        await self.endpoints(made, *addresses)
        # Routes and endpoints come over two watches: wait for this one, or a test's first request may find no pod.
        service = ServiceKey("default", made.service)
        await eventually(lambda: self.gateway.table.pods.get(service, frozenset()) == frozenset(addresses))
        return made

    async def endpoints(self, arm: Arm, *addresses: str) -> None:
        await self.api.put(SLICES, slice_resource(arm.service, *addresses))

    async def route(self, *arms: Arm, generation: int = 1, **spec: Any) -> None:
        """Publish routes and wait until they are in force."""
        await self.api.put(MODELS, model_resource(*arms, generation=generation, **spec))
        await eventually(lambda: self.generation() == generation)

    def generation(self) -> int | None:
        model = self.gateway.table.models.get("default/story")
        return model.generation if model else None

    def ready_pods(self, arm: Arm) -> int:
        model = self.gateway.table.models["default/story"]
        return sum(len(self.gateway.table.targets(model, each)) for each in model.arms if each.service == arm.service)

    def metric(self, name: str, **labels: str) -> float:
        return self.gateway.metrics.registry.get_sample_value(f"diffusion_gateway_{name}", labels) or 0.0

    def arm_metric(self, name: str, arm: Arm, **labels: str) -> float:
        return self.metric(
            name, model_namespace="default", model="story", arm=arm.role, revision=arm.revision, kind=arm.kind, **labels
        )


@contextlib.asynccontextmanager
async def started(**settings: Any) -> AsyncIterator[Stack]:
    """A stack that runs."""
    defaults = Settings(host="127.0.0.1", drain_seconds=5.0)
    stack = Stack(settings=replace(defaults, **settings))
    await stack.api.start()
    public, admin = listen("127.0.0.1", 0), listen("127.0.0.1", 0)
    stack.url = f"http://127.0.0.1:{public.getsockname()[1]}"
    stack.admin_url = f"http://127.0.0.1:{admin.getsockname()[1]}"
    stack.gateway = Gateway(stack.settings, random_source=lambda: stack.random, sample_source=lambda: stack.sample)
    async with (
        client.ApiClient(client.Configuration(host=f"http://127.0.0.1:{stack.api.port}")) as api,
        httpx2.AsyncClient(base_url=stack.url, timeout=60) as stack.http,
        AsyncOpenAI(base_url=f"{stack.url}/v1", api_key="none", max_retries=0, timeout=60) as stack.openai,
    ):
        timing = Timing(watch_seconds=5, grace_seconds=1.0)
        source = TableSource(api=api, on_change=stack.gateway.use_table, timing=timing)
        stack.running = asyncio.create_task(
            run(stack.gateway, source, public_socket=public, admin_socket=admin, stop=stack.stop)
        )
        try:
            await eventually(lambda: stack.gateway.not_ready_because() is None)
            yield stack
        finally:
            stack.stop.set()
            for pod in stack.pods:
                await pod.kill()
            await stack.running
            await stack.api.stop()
