"""What changes on purpose costs no request: new gateways, new worker pods, new weights."""

from concurrent.futures import ThreadPoolExecutor

from tests.e2e import gateways
from tests.e2e.asking import Load, ask


def test_rolling_updates_of_gateways_and_of_workers_of_both_kinds_lose_no_request(cluster, fragile, eventually):
    old_gateways, old_workers = set(gateways.pods(cluster)), set(cluster.ready_pods(fragile.workers))
    with Load(cluster.url, model=fragile.name) as load:
        load.wait_for_answers(2)
        cluster.upgrade("gateway.extraArgs={--silence-seconds=8}")  # which the tests of faults need
        for deployment in fragile.deployments():
            cluster.kubectl("rollout", "restart", f"deployment/{deployment}")
        eventually(
            lambda: (
                not old_gateways & set(gateways.pods(cluster))
                and not old_workers & {pod["metadata"]["name"] for pod in cluster.all_pods(fragile.workers)}
            ),
            "all pods are others",
        )
        load.wait_for_answers(3)

    assert load.incomplete == []


def test_the_arms_together_get_every_request_and_a_new_weight_is_in_force_everywhere_at_once(
    cluster, fragile, eventually
):
    old = fragile.arm("stable")["revision"]
    cluster.patch({"spec": {"rollout": {"initialPercent": 50}, "sampler": {"maxDenoisingSteps": 16}}}, fragile.name)
    eventually(lambda: fragile.arm("canary"), "the new revision is the canary")
    fragile.until_in_force(eventually)
    assert [fragile.arm(role)["percent"] for role in ("stable", "canary")] == [50, 50]

    before = gateways.counts(cluster)
    with ThreadPoolExecutor(4) as pool:
        endings = list(pool.map(lambda _: ask(cluster.url, model=fragile.name, max_tokens=32), range(40)))
    counted = gateways.counts(cluster).since(before)

    assert all(ending.is_complete for ending in endings), endings
    answered = counted.by("revision", "diffusion_gateway_requests_total", model=fragile.name, code="200")
    seen = [ending.headers["x-diffusion-revision"] for ending in endings]
    assert answered == {revision: seen.count(revision) for revision in set(seen)}
    assert sum(answered.values()) == 40
    asked = counted.by("arm", "diffusion_gateway_arm_requests_total", model=fragile.name)
    assert asked["stable"] + asked["canary"] == 40, "each request asks one of the weighted arms first"
    assert min(asked["stable"], asked["canary"]) >= 4, "half of them, but for one draw in a hundred million"

    seconds = fragile.seconds_until_in_force(
        lambda: cluster.patch({"spec": {"rollout": {"initialPercent": 100}}}, fragile.name)
    )
    assert fragile.arm("canary") is None
    assert fragile.arm("stable")["percent"] == 100
    assert seconds < 2
    eventually(lambda: old not in fragile.revisions(), "the old revision is gone")
