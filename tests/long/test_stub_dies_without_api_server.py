"""A worker's stub dies while there is no API server to tell of it."""

import time

import pytest

from tests.e2e import gateways, harm
from tests.e2e.asking import ask, streaming

LONG = 1500
"""Tokens of a stream that is still running when its pod dies."""


def _reasons(counted, what):
    return counted.by("reason", f"diffusion_gateway_{what}_total", model="fragile")


def _is_quiet(cluster):
    return gateways.counts(cluster).sum("diffusion_gateway_requests_in_flight") == 0


def test_a_stub_that_dies_while_the_api_server_is_away_breaks_its_stream_off_and_is_asked_again(
    cluster, fragile, eventually
):
    before, pod = gateways.counts(cluster), fragile.pod("diffusion")
    during = []

    def is_back():
        during.append(ask(cluster.url, model="fragile"))
        return during[-1].arm == "stable"

    with harm.api_server_away():
        with pytest.raises(Exception, match=r"refused|reset|unreachable"):
            cluster.kubectl("get", "--raw", "/version", timeout=20)
        with streaming(cluster.url, model="fragile", max_tokens=LONG) as broken:
            assert broken.read_text()
            harm.kill(pod, name=harm.STUB)
            broken.read_rest()
        during.append(ask(cluster.url, model="fragile"))
        began = time.monotonic()
        # Not longer: after 50 s without news of its node, Kubernetes itself calls all its pods not ready.
        while time.monotonic() - began < 20 and not is_back():
            time.sleep(1)
    eventually(lambda: len(gateways.pods(cluster)) == 2, "the API server tells of the gateways")
    eventually(is_back, "the pod that was started again answers")

    assert broken.ending.is_broken_off, broken.ending
    assert all(ending.is_complete for ending in during), during
    assert during[0].arm == "fallback"
    eventually(lambda: _is_quiet(cluster), "all requests are counted")
    counted = gateways.counts(cluster).since(before)
    assert counted.by("code", "diffusion_gateway_requests_total", model="fragile") == {"200": len(during), "502": 1}
    assert _reasons(counted, "fallbacks").keys() <= {"unavailable", "breaker_open", "timeout", "no_ready_pod"}
    assert sum(_reasons(counted, "fallbacks").values()) == [ending.arm for ending in during].count("fallback")

    cluster.patch({"spec": {"routing": {"minOutputTokens": 100}}}, "fragile")
    eventually(lambda: ask(cluster.url, model="fragile").arm == "fallback", "what is written now is heard again")
    cluster.patch({"spec": {"routing": None}}, "fragile")
    eventually(lambda: ask(cluster.url, model="fragile").arm == "stable", "and what is written after it")
