"""Wrong values are refused before anything is rendered, and the message names the value and what is wrong with it."""

from typing import Any

import pytest

from tests.chart.chart import CHART, HelmError, helm, render

REFUSED: dict[str, tuple[dict[str, Any], list[str]]] = {
    "a number that is a word": ({"gateway.replicas": "two"}, ["/gateway/replicas", "got string, want integer"]),
    "no gateway at all": ({"gateway.replicas": 0}, ["/gateway/replicas", "got 0, want 1"]),
    "a second operator": ({"operator.replicas": 2}, ["/operator", "'replicas' not allowed"]),
    "a misspelt value": ({"gateway.replica": 2}, ["/gateway", "'replica' not allowed"]),
    "a value at the wrong level": ({"replicas": 2}, ["'replicas' not allowed"]),
    "a registry with a scheme": ({"image.registry": "https://registry.example.com"}, ["/image/registry", "https://"]),
    "a registry with a slash at its end": ({"image.registry": "registry.example.com/"}, ["/image/registry"]),
    "a tag with a space": ({"image.tag": "v 1"}, ["/image/tag", "v 1"]),
    "a digest that is none": ({"worker.image.digest": "abc"}, ["/worker/image/digest", "sha256"]),
    "an unknown service type": ({"gateway.service.type": "External"}, ["/gateway/service/type", "'NodePort'"]),
    "a port out of range": ({"gateway.service.port": 70000}, ["/gateway/service/port", "65,535"]),
    "a node port without a node port service": (
        {"gateway.service.nodePort": 30080},
        ["gateway.service.nodePort is 30080", "set the type to NodePort or LoadBalancer"],
    ),
    "a namespace that is not a list": ({"watchNamespaces": "default"}, ["/watchNamespaces", "want array"]),
    "a namespace twice": ({"watchNamespaces": ["a", "a"]}, ["/watchNamespaces", "are equal"]),
    "a namespace with a capital": ({"watchNamespaces": ["Stories"]}, ["/watchNamespaces/0", "Stories"]),
    "an unknown log level": ({"gateway.logLevel": "loud"}, ["/gateway/logLevel", "'warning'"]),
    "a Secret's name that is none": (
        {"gateway.apiKeys.secretName": "API Keys"},
        ["/gateway/apiKeys/secretName", "API Keys"],
    ),
    "an origin with a path": (
        {"gateway.corsOrigins": ["https://a.example.com/chat"]},
        ["/gateway/corsOrigins/0", "https://a.example.com/chat"],
    ),
    "a collector without a scheme": (
        {"gateway.tracing.endpoint": "collector:4318"},
        ["/gateway/tracing/endpoint", "collector:4318"],
    ),
    "more than all requests": (
        {"gateway.tracing.samplePercent": 101},
        ["/gateway/tracing/samplePercent", "got 101, want 100"],
    ),
    "a budget that blocks every drain": (
        {"gateway.podDisruptionBudget.maxUnavailable": 0},
        ["/gateway/podDisruptionBudget/maxUnavailable", "got 0, want 1"],
    ),
    "a unit of memory that Kubernetes has not": (
        {"operator.resources.limits.memory": "1GB"},
        ["/operator/resources/limits/memory", "1GB"],
    ),
    "an annotation that is a number": ({"gateway.podAnnotations": {"a": 1}}, ["/gateway/podAnnotations/a"]),
    "an argument that is no option": ({"operator.extraArgs": ["debug"]}, ["/operator/extraArgs/0", "debug"]),
    "a Prometheus without a scheme": ({"prometheus.url": "prometheus:9090"}, ["/prometheus/url", "prometheus:9090"]),
    "a password in an address": ({"prometheus.url": "https://me:secret@prometheus"}, ["/prometheus/url"]),
    "a timeout that is a bare number": ({"prometheus.timeout": "20"}, ["/prometheus/timeout", "20"]),
    "a Secret's entry that is a path": (
        {"prometheus.bearerTokenSecret.key": "a/b"},
        ["/prometheus/bearerTokenSecret/key", "a/b"],
    ),
    "a network peer that selects nobody": ({"networkPolicy.clients": [{}]}, ["/networkPolicy/clients/0"]),
}


@pytest.mark.parametrize("case", REFUSED)
def test_a_wrong_value_is_refused_with_its_name(case: str):
    values, said = REFUSED[case]
    with pytest.raises(HelmError) as refused:
        render(values)
    for words in said:
        assert words in str(refused.value)


def test_without_a_registry_the_message_says_what_to_set():
    with pytest.raises(HelmError, match=r"image.registry is not set.*--set image.registry="):
        helm("template", "x", str(CHART))


def test_the_chart_works_as_a_subchart_which_gets_global_values():
    assert render({"global.anything": "goes"}) == render()
