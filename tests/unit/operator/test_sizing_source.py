"""What sizing sees of Jobs, nodes and pods."""

from collections.abc import AsyncIterator, Mapping
from typing import Any

import pytest
from aiohttp import web
from aiohttp.test_utils import TestServer
from diffusion_operator.adapters import sizing
from diffusion_operator.adapters.cluster import LiveChild
from diffusion_operator.adapters.errors import AdapterError, InvalidError
from diffusion_operator.adapters.sizing import KubernetesSizing
from diffusion_operator.api import labels
from diffusion_operator.api.models import MeasuredMemory
from diffusion_operator.core.children import ChildKind
from diffusion_operator.core.sized.observation import ObservedInspection, ObservedNodes

METRICS = """\
# TYPE dlm_measured_bytes gauge
dlm_measured_bytes{model="m",part="weights"} 1e6
dlm_measured_bytes{model="m",part="kv"} 2e6
dlm_measured_bytes{model="m",part="total"} 4.5e6
dlm_measured_bytes{model="m",part="of_a_later_release"} 7
"""


class Api:
    """An API server that has these items, or refuses."""

    def __init__(self, *items: Mapping[str, Any], error: AdapterError | None = None) -> None:
        self.items = items
        self.error = error
        self.queries: list[Mapping[str, str]] = []

    async def request(self, method: str, path: str, *, query: Mapping[str, str], **_: Any) -> dict[str, Any]:
        self.queries.append(query)
        if self.error:
            raise self.error
        # As the API server answers for metadata alone.
        return {"items": list(self.items) or (None if "nodes" in path else [])}


def a_job(*conditions: Mapping[str, str]) -> LiveChild:
    return LiveChild(
        kind=ChildKind.JOB, name="m-1", revision="1", is_going=False, manifest={"status": {"conditions": conditions}}
    )


def a_pod(terminated: Mapping[str, Any] | None = None, /, **status: Any) -> dict[str, Any]:
    container = {"state": {"terminated": terminated}} if terminated else {"state": {"running": {}}}
    return {"metadata": {}, "status": {"containerStatuses": [container], **status}}


async def inspected(job: LiveChild, *pods: Mapping[str, Any]) -> ObservedInspection:
    async with KubernetesSizing(Api(*pods)) as source:  # type: ignore[arg-type]
        return await source.inspection(job, namespace="n", model="m")


async def test_a_pod_that_ended_well_leaves_all_that_it_said() -> None:
    pod = a_pod({"exitCode": 0, "message": '{"a": 1}\n{"b": 2}'})
    assert await inspected(a_job(), pod) == ObservedInspection(
        has_ended=True, succeeded=True, message='{"a": 1}\n{"b": 2}'
    )


async def test_a_pod_that_failed_leaves_its_last_line() -> None:
    pod = a_pod({"exitCode": 2, "message": "log\ndiffusion-worker: it is gated\n"})
    assert await inspected(a_job(), pod) == ObservedInspection(has_ended=True, message="diffusion-worker: it is gated")
    killed = a_pod({"exitCode": 137, "reason": "OOMKilled"})
    assert (await inspected(a_job(), killed)).message == "OOMKilled"


async def test_a_pod_that_its_node_evicted_has_ended() -> None:
    pod = {"status": {"phase": "Failed", "reason": "Evicted", "message": "The node was low on memory"}}
    assert await inspected(a_job(), pod) == ObservedInspection(
        has_ended=True, message="Evicted: The node was low on memory"
    )


async def test_a_job_whose_time_is_over_has_ended() -> None:
    job = a_job({"type": "Failed", "status": "True", "reason": "DeadlineExceeded", "message": "too long"})
    assert await inspected(job) == ObservedInspection(has_ended=True, message="DeadlineExceeded: too long")


async def test_a_job_whose_pod_is_gone_has_to_be_made_again() -> None:
    found = await inspected(a_job({"type": "Complete", "status": "True"}))
    assert (found.has_ended, found.succeeded) == (True, False)


async def test_a_pod_that_waits_says_for_what() -> None:
    waits = {"state": {"waiting": {"reason": "CreateContainerConfigError", "message": 'secret "hub" not found'}}}
    found = await inspected(a_job(), {"status": {"containerStatuses": [waits]}})
    assert found == ObservedInspection(waiting_for='CreateContainerConfigError (secret "hub" not found)')
    assert await inspected(a_job()) == ObservedInspection()


def a_node(memory: str) -> dict[str, Any]:
    return {"metadata": {"labels": {labels.GPU_MEMORY: memory}}}


async def test_the_smallest_gpu_counts_and_nodes_are_asked_once_a_minute(monkeypatch: pytest.MonkeyPatch) -> None:
    now = [1000.0]
    monkeypatch.setattr(sizing.clock, "monotonic", lambda: now[0])
    api = Api(a_node("81920"), a_node("24576"), a_node("unknown"))
    async with KubernetesSizing(api) as source:  # type: ignore[arg-type]
        for _ in range(3):
            assert await source.nodes("pool=a") == ObservedNodes(gpu_memory_bytes=24 * 1024**3)
        assert [query["labelSelector"] for query in api.queries] == [f"{labels.GPU_MEMORY},pool=a"]
        await source.nodes("")
        now[0] += 61
        await source.nodes("pool=a")
        assert len(api.queries) == 3


async def test_no_node_has_no_gpu() -> None:
    async with KubernetesSizing(Api()) as source:  # type: ignore[arg-type]
        assert (await source.nodes("")).gpu_memory_bytes is None


async def test_nodes_that_cannot_be_known_say_why() -> None:
    async with KubernetesSizing(Api(error=InvalidError("nodes is forbidden"))) as source:  # type: ignore[arg-type]
        assert await source.nodes("") == ObservedNodes(why="nodes is forbidden")
    async with KubernetesSizing(Api(a_node("none"))) as source:  # type: ignore[arg-type]
        assert "has the label nvidia.com/gpu.memory" in (await source.nodes("")).why


@pytest.fixture
async def metrics(monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[dict[str, Any]]:
    """The metrics port of a pod on loopback: what it answers, and how often it was asked."""
    served: dict[str, Any] = {"text": METRICS, "status": 200, "asked": 0}

    async def answer(_: web.Request) -> web.Response:
        served["asked"] += 1
        return web.Response(text=served["text"], status=served["status"])

    app = web.Application()
    app.router.add_get("/metrics", answer)
    async with TestServer(app) as server:
        monkeypatch.setattr(labels, "METRICS_PORT", server.port)
        yield served


READY = {"podIP": "127.0.0.1", "conditions": [{"type": "Ready", "status": "True"}]}
STARTING = {"podIP": "127.0.0.1", "conditions": [{"type": "Ready", "status": "False"}]}


async def test_what_a_ready_pod_took_is_read_from_its_metrics(metrics: dict[str, Any]) -> None:
    async with KubernetesSizing(Api({"status": STARTING}, {"status": READY})) as source:  # type: ignore[arg-type]
        found = await source.measured("n", model="m", revision="1")
    assert found == MeasuredMemory(weights=1_000_000, kv=2_000_000, total=4_500_000)


@pytest.mark.parametrize(
    ("text", "status", "pod"),
    [
        ("", 200, READY),
        ('dlm_measured_bytes{part="kv"} 1', 200, READY),
        ("<html>", 200, READY),
        (METRICS, 500, READY),
        (METRICS, 200, STARTING),
    ],
)
async def test_a_pod_that_says_nothing_costs_one_question_a_minute(
    metrics: dict[str, Any], text: str, status: int, pod: dict[str, Any]
) -> None:
    metrics |= {"text": text, "status": status}
    async with KubernetesSizing(Api({"status": pod})) as source:  # type: ignore[arg-type]
        for _ in range(5):
            assert await source.measured("n", model="m", revision="1") is None
    assert metrics["asked"] <= 1


async def test_an_api_server_that_does_not_answer_stops_nothing() -> None:
    async with KubernetesSizing(Api(error=AdapterError("gone"))) as source:  # type: ignore[arg-type]
        assert await source.measured("n", model="m", revision="1") is None
