"""While requests stream, pods die. Nothing hangs, clients get an answer or a clear error, all is Ready again without help."""

import pytest

from tests.e2e import gateways
from tests.e2e.asking import Load

MODEL = "storyteller"
DIFFUSION = f"serving.diffusion-operator.dev/model={MODEL},serving.diffusion-operator.dev/kind=diffusion"
AT_ONCE = ("--grace-period=0", "--force", "--wait=false")


def kill_operator_pod(cluster):
    pod = cluster.ready_pods("app.kubernetes.io/component=operator", namespace=gateways.SYSTEM)[0]
    cluster.kubectl("delete", "pod", "-n", gateways.SYSTEM, pod, *AT_ONCE)


def kill_gateway_pod(cluster):
    pod = cluster.ready_pods(gateways.GATEWAY, namespace=gateways.SYSTEM)[0]
    cluster.kubectl("delete", "pod", "-n", gateways.SYSTEM, pod, *AT_ONCE)


def delete_worker_pod(cluster):
    cluster.kubectl("delete", "pod", cluster.ready_pods(DIFFUSION)[0], "--wait=false")


def test_a_killed_worker_pod_breaks_off_its_streams_and_no_others(cluster, eventually):
    before = gateways.counts(cluster)
    with Load(cluster.url, model=MODEL) as load:
        load.wait_for_answers(2)
        cluster.kubectl("delete", "pod", cluster.ready_pods(DIFFUSION)[0], *AT_ONCE)
        load.wait_for_answers(5)
        eventually(cluster.everything_is_ready, "everything is Ready again")
        load.wait_for_answers(2)

    assert load.unclear == []
    assert all(ending.is_broken_off for ending in load.incomplete), load.incomplete
    assert len(load.incomplete) <= 3, "what was streaming when it died"
    counted = gateways.counts(cluster).since(before).by("code", "diffusion_gateway_requests_total", model=MODEL)
    assert counted.get("502", 0) == len(load.incomplete)
    assert counted["200"] == load.complete


def test_a_killed_gateway_pod_takes_only_its_own_connections_with_it(cluster, eventually):
    with Load(cluster.url, model=MODEL) as load:
        load.wait_for_answers(2)
        kill_gateway_pod(cluster)
        load.wait_for_answers(5)
        eventually(cluster.everything_is_ready, "everything is Ready again")

    assert load.unclear == []
    assert all(ending.cut or ending.is_broken_off for ending in load.incomplete), load.incomplete
    assert load.complete > len(load.incomplete)


@pytest.mark.parametrize("disrupt", [kill_operator_pod, delete_worker_pod])
def test_neither_a_killed_operator_nor_a_worker_that_is_asked_to_go_costs_a_request_its_answer(
    cluster, eventually, disrupt
):
    """A pod that is asked to go drains; what cannot reach it any more is answered by AR."""
    with Load(cluster.url, model=MODEL) as load:
        load.wait_for_answers(2)
        disrupt(cluster)
        load.wait_for_answers(8)
        eventually(cluster.everything_is_ready, f"everything is Ready again after {disrupt.__name__}")

    assert load.incomplete == []


def test_a_client_that_goes_away_frees_its_row(cluster, eventually):
    stream = cluster.client().completions.create(model=MODEL, prompt="Once", max_tokens=1500, stream=True)
    next(iter(stream))
    stream.close()

    pod = cluster.ready_pods(DIFFUSION)[0]

    def rows_in_flight():
        metrics = cluster.kubectl("get", "--raw", f"/api/v1/namespaces/default/pods/{pod}:8002/proxy/metrics")
        line = next(line for line in metrics.splitlines() if line.startswith("dlm_rows_in_flight"))
        return float(line.rsplit(" ", 1)[1])

    eventually(lambda: rows_in_flight() == 0, "the row is free", within=60)
