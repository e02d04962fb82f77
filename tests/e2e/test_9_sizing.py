"""Memory: what does not fit gets no pod, and what was planned holds under load."""

import random
import threading
import time
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import httpx2
import pytest
from prometheus_client.parser import text_string_to_metric_families

from tests.e2e import gateways, harm
from tests.e2e.asking import ask, streaming

WORKERS = "app.kubernetes.io/name=diffusion-worker,serving.diffusion-operator.dev/model="
MODEL = "storyteller"


@pytest.fixture
def too_large(cluster):
    """A model whose pods would have less memory than it needs."""
    manifest = {
        "apiVersion": "serving.diffusion-operator.dev/v1alpha1",
        "kind": "DiffusionModel",
        "metadata": {"name": "too-large"},
        "spec": {
            "model": {"source": "file:///models/storyteller"},
            "fallback": {"model": {"source": "file:///models/storyteller-ar"}},
            "resources": {"cpu": "250m", "memory": "700Mi"},
        },
    }
    cluster.apply(manifest)
    yield "too-large"
    cluster.kubectl("delete", "diffusionmodel", "too-large", "--wait=false")


def restarts(cluster, model):
    """Containers of the model's pods that were started again, by pod, and why."""
    return {
        pod["metadata"]["name"]: status["lastState"]
        for pod in cluster.pods(WORKERS + model)
        for status in pod["status"]["containerStatuses"]
        if status["restartCount"]
    }


def planned_rows(cluster):
    """Rows of full length that fit, by kind of arm."""
    return {arm["kind"]: arm["rows"] for arm in cluster.model("fragile")["status"]["sizing"]["arms"]}


def peak_bytes(pod):
    """Most memory that a pod's container has taken, as the kernel counts it for its limit."""
    groups = dict(
        line.split(":", 2)[1:]
        for line in (Path("/proc") / str(harm.processes(pod)[0]) / "cgroup").read_text().splitlines()
    )
    if "memory" in groups:  # cgroups of version 1
        file = Path("/sys/fs/cgroup/memory") / groups["memory"].lstrip("/") / "memory.max_usage_in_bytes"
    else:
        file = Path("/sys/fs/cgroup") / groups[""].lstrip("/") / "memory.peak"
    return int(file.read_text())


def worker_metric(pod, name, **labels):
    text = httpx2.get(f"http://{pod['status']['podIP']}:8002/metrics", timeout=30, trust_env=False).text
    families = text_string_to_metric_families(text)
    (found,) = [
        sample.value
        for family in families
        for sample in family.samples
        if sample.name == name and labels.items() <= sample.labels.items()
    ]
    return found


def keeps_to_its_plan(pod):
    """No request ended for want of memory, and the container never took more than was planned for it."""
    assert worker_metric(pod, "dlm_out_of_memory_total") == 0
    assert worker_metric(pod, "dlm_measured_bytes", part="total") > 0
    return peak_bytes(pod) <= worker_metric(pod, "dlm_planned_bytes", part="total")


def test_a_model_that_is_too_large_gets_no_pod_and_is_told_what_would_fit(cluster, too_large, eventually):
    eventually(lambda: cluster.condition("Sized", too_large).get("reason") == "DoesNotFit", "its headers were read")

    sized = cluster.condition("Sized", too_large)
    assert sized["status"] == "False"
    assert "more than the budget of 630.00 MiB" in sized["message"]
    assert cluster.all_pods(WORKERS + too_large) == []
    assert cluster.model(too_large)["status"]["revisions"] == []
    refused = ask(cluster.url, model=too_large)
    assert (refused.status, refused.error["code"]) in {(404, "model_not_found"), (503, "model_unavailable")}


def test_a_limit_below_the_need_is_noticed_before_anything_changes_for_clients(cluster, fragile, eventually):
    arms, pods = fragile.arms(), {pod["metadata"]["uid"] for pod in cluster.all_pods(fragile.workers)}
    cluster.patch({"spec": {"resources": {"memory": "700Mi"}}}, fragile.name)
    try:
        eventually(lambda: cluster.condition("Sized", fragile.name)["status"] == "False", "it does not fit any more")
        assert cluster.condition("Sized", fragile.name)["reason"] == "DoesNotFit"
        assert cluster.condition("Ready", fragile.name)["status"] == "True"
        assert ask(cluster.url, model=fragile.name).is_complete
        assert fragile.arms() == arms
        assert {pod["metadata"]["uid"] for pod in cluster.all_pods(fragile.workers)} == pods
    finally:
        cluster.patch({"spec": {"resources": {"memory": "1Gi"}}}, fragile.name)
    eventually(lambda: cluster.condition("Sized", fragile.name)["status"] == "True", "it fits again")


def test_two_hundred_mixed_requests_never_run_out_of_the_planned_memory(cluster):
    """At the limits that a user gets who writes none: 8 rows, and planned was for fewer of full length."""
    before, draws = restarts(cluster, MODEL), random.Random(7)
    asked = [
        {
            "prompt": "Once upon a time there was a fox. " * draws.choice((1, 10, 40, 150)),
            "max_tokens": draws.choice((8, 32, 32, 64)),  # those of 8 go to AR
            "seed": number,
        }
        for number in range(200)
    ]

    def until_answered(request):
        while (ending := ask(cluster.url, model=MODEL, **request)).status == 429:
            time.sleep(0.5)
        return ending

    with ThreadPoolExecutor(12) as pool:
        endings = list(pool.map(until_answered, asked))

    failed = [ending for ending in endings if not ending.is_complete]
    assert Counter(str(ending.error or ending.cut or ending.hung) for ending in failed) == {}
    assert restarts(cluster, MODEL) == before
    assert all(keeps_to_its_plan(pod) for pod in cluster.pods(WORKERS + MODEL))


def test_more_long_requests_than_planned_are_refused_and_no_pod_falls(cluster, fragile, eventually):
    before, restarted = gateways.counts(cluster), restarts(cluster, "fragile")
    # The engine would take 64 rows, and memory was planned for fewer: it must not believe the number of rows.
    rows = sum(planned_rows(cluster).values())
    assert max(planned_rows(cluster).values()) * 1.5 <= 64
    waiting = 2 * 4
    clients = int(1.5 * (rows + waiting)) + 1
    enough, settled = threading.Event(), []

    def begin(number):
        with streaming(cluster.url, model="fragile", max_tokens=1900, seed=number) as stream:
            settled.append(number)
            if stream.ending.status == 200:
                enough.wait(120)  # holds its row until all others know whether they get one
        return stream.ending

    with ThreadPoolExecutor(clients) as pool:
        begun = [pool.submit(begin, number) for number in range(clients)]
        try:
            eventually(lambda: len(settled) == clients, "each is answered or refused", within=100)
        finally:
            enough.set()
        endings = [future.result() for future in begun]

    refused = [ending for ending in endings if ending.status != 200]
    assert {ending.status for ending in refused} == {429}, endings
    assert all(int(ending.headers["retry-after"]) >= 1 for ending in refused)
    assert len(refused) < clients
    counted = gateways.counts(cluster).since(before)
    assert counted.sum("diffusion_gateway_requests_total", code="429") == len(refused)
    why = counted.by("reason", "diffusion_gateway_arm_failures_total", model="fragile")
    assert why["queue_full"] + why.get("busy", 0) >= len(refused)
    assert restarts(cluster, "fragile") == restarted
    assert all(keeps_to_its_plan(fragile.pod(kind)) for kind in ("diffusion", "ar"))
    assert ask(cluster.url, model="fragile").is_complete
