"""Who sits behind a proxy reaches the cluster all the same."""

import os
import urllib.request

import pytest

from cluster import lifecycle
from cluster.addresses import Addresses


@pytest.fixture(autouse=True)
def behind_a_proxy(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HTTPS_PROXY", "http://proxy.example:3128")
    monkeypatch.setenv("no_proxy", "")
    monkeypatch.setenv("NO_PROXY", "intranet.example")


def test_the_node_and_the_registry_are_reached_directly() -> None:
    addresses = Addresses(70)

    lifecycle.bypass_proxies(addresses)

    assert urllib.request.proxy_bypass_environment(addresses.node)
    assert os.environ["NO_PROXY"] == "intranet.example,10.70.0.2,10.70.0.0/16,registry.local"


def test_asking_twice_adds_nothing() -> None:
    lifecycle.bypass_proxies(Addresses(70))
    once = os.environ["NO_PROXY"]

    lifecycle.bypass_proxies(Addresses(70))

    assert os.environ["NO_PROXY"] == once
