"""Parts die, freeze or go away. The client gets an answer or is told, in time, and the metrics say why.

`fragile` has one pod of each kind; a pod may take 6 s to its first event, and 8 s between two.
"""

from concurrent.futures import ThreadPoolExecutor

import pytest

from tests.e2e import gateways, harm
from tests.e2e.asking import ask, streaming

LONG = 1500
"""Tokens of a stream that is still running when its pod dies."""


@pytest.fixture(scope="module", autouse=True)
def _impatient_gateways(cluster):
    """A worker that is silent in the middle of an answer is given up after 8 s."""
    cluster.upgrade("gateway.extraArgs={--silence-seconds=8}")
    yield
    cluster.upgrade("gateway.extraArgs=null")


@pytest.fixture(autouse=True)
def _heals(cluster, fragile, eventually):
    fragile.retry_if_rolled_back()  # a slow machine may have restarted a frozen pod: two of those look like a crash loop
    eventually(fragile.serves, "the model serves")


def reasons(counted, what, **labels):
    """How often, by reason."""
    return counted.by("reason", f"diffusion_gateway_{what}_total", model="fragile", **labels)


def is_quiet(cluster):
    """No request is in work in any gateway, so that all of them are counted."""
    return gateways.counts(cluster).sum("diffusion_gateway_requests_in_flight") == 0


def test_a_killed_worker_pod_breaks_one_stream_off_and_ar_answers_who_was_still_waiting(cluster, fragile, eventually):
    before, pod = gateways.counts(cluster), fragile.pod("diffusion")
    with ThreadPoolExecutor(1) as pool, streaming(cluster.url, model="fragile", max_tokens=LONG) as broken:
        assert broken.read_text()
        with harm.frozen(pod):  # so that the second request has certainly reached the pod, and got nothing yet
            waiting = pool.submit(ask, cluster.url, model="fragile")
            eventually(
                lambda: gateways.counts(cluster).sum("diffusion_gateway_requests_in_flight") == 2, "both are in work"
            )
            cluster.kubectl("delete", "pod", pod["metadata"]["name"], "--grace-period=0", "--force", "--wait=false")
            broken.read_rest()
        answered = waiting.result()
    idle = ask(cluster.url, model="fragile")  # nobody else is there: the pod died while nothing ran

    assert broken.ending.is_broken_off, broken.ending
    assert answered.is_complete, answered
    assert answered.arm == "fallback"
    assert idle.is_complete, idle
    eventually(lambda: is_quiet(cluster), "all requests are counted")
    counted = gateways.counts(cluster).since(before)
    assert counted.by("code", "diffusion_gateway_requests_total", model="fragile") == {"200": 2, "502": 1}
    assert reasons(counted, "arm_failures", kind="diffusion")["unavailable"] >= 2
    assert sum(reasons(counted, "fallbacks").values()) == [answered.arm, idle.arm].count("fallback")


def test_a_frozen_worker_is_given_up_in_time_and_asked_again_when_it_is_back(cluster, fragile, eventually):
    before, pod = gateways.counts(cluster), fragile.pod("diffusion")
    with streaming(cluster.url, model="fragile", max_tokens=LONG) as broken:
        assert broken.read_text()
        with harm.frozen(pod):
            with ThreadPoolExecutor(2) as pool:
                waiting = pool.submit(ask, cluster.url, model="fragile")
                alone = pool.submit(ask, cluster.url, model="fragile", headers={"x-diffusion-arm": "stable"})
                broken.read_rest()
                answered, refused = waiting.result(), alone.result()
            eventually(
                lambda: gateways.ready_everywhere(cluster, "fragile", kind="diffusion") == {0},
                "no gateway asks it any more",
            )
            at_once = ask(cluster.url, model="fragile")

    assert broken.ending.is_broken_off, broken.ending
    assert answered.is_complete, answered
    assert answered.arm == "fallback"
    assert (refused.status, refused.error["code"]) == (503, "model_unavailable"), "nobody takes over for a forced arm"
    assert at_once.is_complete, at_once
    assert at_once.arm == "fallback"
    eventually(lambda: is_quiet(cluster), "all requests are counted")
    counted = gateways.counts(cluster).since(before)
    # One of two gateways answers, and it may have no connection to the pod yet: then connecting takes too long.
    silence = {"timeout", "unavailable"}
    fallbacks = reasons(counted, "fallbacks")
    assert fallbacks.pop("no_ready_pod") == 1
    assert fallbacks.keys() <= silence
    assert sum(fallbacks.values()) == 1
    failures = reasons(counted, "arm_failures", kind="diffusion")
    assert failures.keys() <= silence | {"no_ready_pod"}
    assert sum(failures.values()) == 4
    assert counted.by("code", "diffusion_gateway_requests_total", model="fragile") == {"200": 2, "502": 1, "503": 1}


def test_an_endpoint_that_is_removed_finishes_its_stream_and_gets_no_new_one(cluster, fragile, eventually):
    before, pod = gateways.counts(cluster), fragile.pod("diffusion")
    name = pod["metadata"]["name"]
    with streaming(cluster.url, model="fragile", max_tokens=LONG) as stream:
        assert stream.read_text()
        # Its Service and its Deployment know it no more; the pod itself goes on.
        cluster.kubectl("label", "pod", name, "serving.diffusion-operator.dev/revision-")
        eventually(
            lambda: gateways.ready_everywhere(cluster, "fragile", kind="diffusion") == {0}, "it is no endpoint any more"
        )
        after = ask(cluster.url, model="fragile")
        stream.read_rest()
    cluster.kubectl("delete", "pod", name, "--wait=false")

    assert stream.ending.is_complete, stream.ending
    assert after.is_complete, after
    assert after.arm == "fallback"
    assert reasons(gateways.counts(cluster).since(before), "fallbacks") == {"no_ready_pod": 1}


def test_without_ar_diffusion_goes_on_pairs_are_missing_and_without_both_clients_are_told(cluster, fragile, eventually):
    cluster.patch({"spec": {"scoring": {"samplePercent": 100}}}, "fragile")
    pairs = {"model": "fragile"}
    before = gateways.counts(cluster)

    def pair_arrives():
        assert ask(cluster.url, model="fragile").is_complete
        return gateways.counts(cluster).since(before).sum("diffusion_gateway_pairs_total", **pairs)

    eventually(pair_arrives, "a pair, though diffusion has all the weight", within=120)
    eventually(lambda: gateways.counts(cluster).sum("diffusion_gateway_pairs_waiting") == 0, "no pair is in work")

    with harm.frozen(fragile.pod("ar")):
        eventually(lambda: gateways.ready_everywhere(cluster, "fragile", kind="ar") == {0}, "AR is no endpoint")
        before = gateways.counts(cluster)
        by_rule = ask(cluster.url, model="fragile", max_tokens=8)
        usual = ask(cluster.url, model="fragile")
        only_ar = ask(cluster.url, model="fragile", logprobs=1, stream=False)
        eventually(
            lambda: sum(reasons(gateways.counts(cluster).since(before), "pairs_dropped").values()) >= 1,
            "the samples are given up",
        )
        alone = gateways.counts(cluster).since(before)
        with harm.frozen(fragile.pod("diffusion")):
            eventually(lambda: gateways.ready_everywhere(cluster, "fragile", kind="diffusion") == {0}, "nobody is left")
            nobody = [ask(cluster.url, model="fragile", stream=stream) for stream in (True, False)]
        both = gateways.counts(cluster).since(before)
    cluster.patch({"spec": {"scoring": {"samplePercent": 0}}}, "fragile")

    assert by_rule.is_complete, by_rule
    assert by_rule.arm == "stable", "AR would answer a short request, and diffusion takes over"
    assert usual.is_complete, usual
    assert (only_ar.status, only_ar.error["code"]) == (503, "model_unavailable")
    assert reasons(alone, "fallbacks", arm="fallback") == {"no_ready_pod": 1}
    assert reasons(alone, "pairs_dropped").keys() == {"no_ready_pod"}
    for sums in ("pairs", "pair_nll_above", "pair_nll_below", "pair_nll_squared"):
        assert alone.sum(f"diffusion_gateway_{sums}_total", **pairs) == 0, "what is missing is no zero"
    for ending in nobody:
        assert ending.status == 503
        assert ending.error["code"] == "model_unavailable"
        assert all(f"the {role} arm" in ending.error["message"] for role in ("stable", "fallback"))
    assert both.sum("diffusion_gateway_requests_total", model="fragile", code="503") == 3
    # Pods that are said to be not ready are asked when there is nobody else: these do not answer.
    assert sum(reasons(both, "arm_failures", kind="diffusion").values()) == 2
