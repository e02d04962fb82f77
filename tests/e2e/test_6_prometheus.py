"""A real Prometheus finds every part by its pod annotations, and the numbers carry model, revision and kind."""

import httpx2

from cluster import lifecycle, prometheus


def test_prometheus_scrapes_gateways_operator_and_workers_of_both_kinds(cluster, eventually):
    url = prometheus.install(lifecycle.running_instance())
    stable = cluster.arms()[0]["revision"]

    def query(expression):
        answer = httpx2.get(f"{url}/api/v1/query", params={"query": expression}, timeout=30, trust_env=False)
        return [series["metric"] for series in answer.json()["data"]["result"]]

    eventually(lambda: len(query("up == 1")) >= 5, "two gateways, the operator and two workers are scraped")
    eventually(lambda: query("up == 0") == [], "pods on their way out are gone, and all others are reached")

    cluster.client().completions.create(model="storyteller", prompt="Once upon a time", max_tokens=64)

    eventually(
        lambda: query(
            f'diffusion_gateway_requests_total{{model="storyteller",revision="{stable}",kind="diffusion",code="200"}} > 0'
        ),
        "the gateway's count of the answered request arrives under model, revision and kind",
    )
    eventually(
        lambda: query(f'dlm_blocks_total{{model="storyteller",revision="{stable}",kind="diffusion"}} > 0'),
        "the worker's count of blocks arrives under the same labels",
    )
