"""What the API server refuses, and what it says: the field and the remedy."""

import copy
from typing import Any, NamedTuple

import pytest
from diffusion_operator.api import labels
from kubernetes import client

from tests.api.server import Server, message_of


def resource(name: str = "storyteller", **spec: Any) -> dict[str, Any]:
    return {
        "apiVersion": labels.API_VERSION,
        "kind": labels.KIND,
        "metadata": {"name": name},
        "spec": {
            "model": {"source": "file:///models/storyteller"},
            "fallback": {"model": {"source": "file:///models/storyteller-ar"}},
            **copy.deepcopy(spec),
        },
    }


class Wrong(NamedTuple):
    """A wrong resource; the message must have all of `says`."""

    resource: dict[str, Any]
    says: tuple[str, ...]


ENDPOINT = {"url": "http://vllm:8000/v1", "model": "twin"}
SOURCE = {"source": "file:///models/storyteller-ar"}

WRONG = {
    "a wrong type": Wrong(resource(replicas="two"), ("spec.replicas", "integer")),
    "an unknown sampler": Wrong(
        resource(sampler={"name": "ddpm"}), ("spec.sampler.name", '"ddpm"', '"entropy_bound"', '"discrete_ddim"')
    ),
    "percent 0": Wrong(
        resource(rollout={"initialPercent": 0}), ("spec.rollout.initialPercent", "greater than or equal to 1")
    ),
    "percent 101": Wrong(
        resource(rollout={"initialPercent": 101}), ("spec.rollout.initialPercent", "less than or equal to 100")
    ),
    "both fallbacks": Wrong(
        resource(fallback={"model": SOURCE, "endpoint": ENDPOINT}), ("spec.fallback", "exactly one of model")
    ),
    "an empty fallback": Wrong(resource(fallback={}), ("spec.fallback", "exactly one of model")),
    "no fallback": Wrong(
        {**resource(), "spec": {"model": {"source": "file:///models/x"}}}, ("spec.fallback", "Required value")
    ),
    "a negative limit": Wrong(
        resource(limits={"queueSize": -1}), ("spec.limits.queueSize", "greater than or equal to 1")
    ),
    "a negative limit of those that may be auto": Wrong(
        resource(limits={"maxBatchSize": -4}), ("spec.limits.maxBatchSize", "whole number from 1 to 64")
    ),
    "a limit that is a word": Wrong(
        resource(limits={"maxSequenceLength": "much"}), ("spec.limits.maxSequenceLength", "neither auto nor")
    ),
    "an impossible duration": Wrong(
        resource(limits={"requestTimeout": "one minute"}), ("spec.limits.requestTimeout", "such as 50ms, 30s or 24h")
    ),
    "a duration of days": Wrong(resource(rollout={"maxHold": "7d"}), ("spec.rollout.maxHold", "a week is 168h")),
    "a duration of ages": Wrong(
        resource(limits={"requestTimeout": "99999999h"}), ("spec.limits.requestTimeout", "such as 30s")
    ),
    "no time at all": Wrong(resource(limits={"requestTimeout": "0s"}), ("spec.limits.requestTimeout", "such as 30s")),
    "a long batch window": Wrong(resource(limits={"batchWindow": "2s"}), ("spec.limits.batchWindow", "0ms to 100ms")),
    "an unknown field": Wrong(resource(temperature=1), ("spec.temperature", "unknown field")),
    "no source": Wrong(
        {**resource(), "spec": {"model": {}, "fallback": {"model": SOURCE}}}, ("spec.model.source", "Required value")
    ),
    "a source of no known kind": Wrong(
        resource(model={"source": "s3://bucket/model"}), ("spec.model.source", "write hf://organisation/repository")
    ),
    "a source that climbs out": Wrong(
        resource(model={"source": "file:///models/../etc"}), ("spec.model.source", "not a model source")
    ),
    "a revision of a folder": Wrong(
        resource(model={"source": "file:///models/x", "revision": "main"}), ("spec.model", "use an hf:// source")
    ),
    "a token for a folder": Wrong(
        resource(model={"source": "file:///models/x", "tokenSecretRef": {"name": "hub", "key": "token"}}),
        ("spec.model", "tokenSecretRef is a token of the hub"),
    ),
    "a name too long": Wrong(resource(name="s" * 51), ("metadata.name", "longer than 50", "shorten")),
    "a name that is no Service's": Wrong(resource(name="3stories"), ("metadata.name", "start with a letter")),
    "a quantity that is none": Wrong(
        resource(resources={"memory": "lots"}), ("spec.resources.memory", "such as 500m, 2 or 16Gi")
    ),
    "no memory": Wrong(resource(resources={"memory": 0}), ("spec.resources.memory", "positive number")),
    "negative cpu": Wrong(resource(resources={"cpu": "-1"}), ("spec.resources.cpu", "positive number")),
    "temperatures upside down": Wrong(
        resource(sampler={"temperature": {"min": 1.2, "max": 0.8}}), ("spec.sampler.temperature", "swap them")
    ),
    "a setting of another sampler": Wrong(
        resource(sampler={"name": "discrete_ddim", "entropyBound": 0.1}),
        ("spec.sampler", "discrete_ddim does not know", "entropyBound", "choose a sampler that knows it"),
    ),
    "early stopping where steps are planned": Wrong(
        resource(sampler={"name": "block_refinement", "stabilityThreshold": 1}),
        ("spec.sampler", "block_refinement does not know", "stabilityThreshold"),
    ),
    "a setting that no default sampler knows": Wrong(
        resource(sampler={"stochasticity": 0.5}), ("spec.sampler", "discrete_ddim", "set name as well")
    ),
    "chance in a deterministic sampler": Wrong(
        resource(sampler={"name": "discrete_ddim", "deterministic": True, "stochasticity": 0.5}),
        ("spec.sampler", "remove stochasticity"),
    ),
    "a canvas too long": Wrong(
        resource(sampler={"canvasLength": 4096}), ("spec.sampler.canvasLength", "less than or equal to 1024")
    ),
    "no step at all": Wrong(
        resource(sampler={"maxDenoisingSteps": 0}),
        ("spec.sampler.maxDenoisingSteps", "greater than or equal to 1"),
    ),
    "a sink without a window": Wrong(resource(attention={"sink": 64}), ("spec.attention", "set window")),
    "an address that is none": Wrong(
        resource(fallback={"endpoint": {**ENDPOINT, "url": "vllm:8000"}}),
        ("spec.fallback.endpoint.url", "http://host:port/v1"),
    ),
}


@pytest.mark.parametrize("wrong", WRONG.values(), ids=WRONG.keys())
def test_the_api_server_names_the_field_and_the_remedy(server: Server, namespace: str, wrong: Wrong) -> None:
    with pytest.raises(client.exceptions.ApiException) as refused:
        server.create(namespace, wrong.resource)
    message = message_of(refused.value)
    assert [part for part in wrong.says if part not in message] == [], message


def test_a_resource_with_every_field_is_taken_and_comes_back_as_it_was(server: Server, namespace: str) -> None:
    spec = {
        "model": {"source": "hf://google/diffusiongemma-26B-A4B-it", "revision": "0123abc", "dtype": "bfloat16"},
        "fallback": {"model": {"source": "pvc://models/ar/twin", "dtype": "auto"}},
        "sampler": {
            "name": "entropy_bound",
            "canvasLength": 64,
            "maxDenoisingSteps": 20,
            "schedule": "cosine",
            "adaptive": True,
            "temperature": {"min": 0.8, "max": 1.2},
            "topP": 0.9,
            "guidanceScale": 0.8,
            "deterministic": True,
            "stabilityThreshold": 1,
            "confidenceThreshold": 0.005,
            "entropyBound": 0.1,
        },
        "attention": {"window": 4096, "sink": 64, "maskCache": "dual"},
        "limits": {
            "maxBatchSize": "auto",
            "maxSequenceLength": 2048,
            "batchWindow": "50ms",
            "queueSize": 64,
            "requestTimeout": "1m30s",
        },
        "resources": {
            "gpus": 1,
            "gpuMemory": "80Gi",
            "memoryUtilization": 0.9,
            "cpu": "500m",
            "memory": 2147483648,
            "nodeSelector": {"gpu": "h100"},
            "tolerations": [{"key": "gpu", "operator": "Exists", "effect": "NoSchedule"}],
            "runtimeClassName": "nvidia",
            "shmSize": "1Gi",
        },
        "replicas": 2,
        "rollout": {
            "initialPercent": 5,
            "stepPercent": 5,
            "stepDuration": "24h",
            "paused": False,
            "onInconclusive": "Hold",
            "maxHold": "168h",
            "gates": {
                "perplexityRatio": {"max": 1.15, "minSamples": 200},
                "repetitionRate": {"max": 0.15, "window": 32, "minSamples": 200},
                "timeToFirstToken": {"p95": "500ms", "minSamples": 200},
                "latencyRatio": {"max": 0.3, "minSamples": 200},
                "errorRate": {"max": 0.01, "window": "5m", "minSamples": 50},
            },
        },
        "routing": {
            "minOutputTokens": 32,
            "causalWorkloads": ["code", "math"],
            "detectWorkload": True,
            "sticky": "user",
            "onUnconverged": "Accept",
        },
        "scoring": {"samplePercent": 5},
    }
    assert server.create(namespace, resource(**spec))["spec"] == spec


@pytest.mark.parametrize(
    "sampler",
    [
        {"name": "discrete_ddim", "stochasticity": 0.5, "stabilityThreshold": 1, "confidenceThreshold": 0.1},
        {"name": "discrete_ddim", "deterministic": True, "stochasticity": 0},
        {"name": "block_refinement", "acceptThreshold": 0.9, "adaptive": True},
        {"name": "low_confidence", "acceptThreshold": 0.9, "schedule": "linear"},
        {"acceptThreshold": 0.9},
        {"entropyBound": 0.2},
    ],
)
def test_each_sampler_is_taken_with_its_own_settings(
    server: Server, namespace: str, sampler: dict[str, object]
) -> None:
    assert server.create(namespace, resource(sampler=sampler))["spec"]["sampler"] == sampler


def test_a_longest_name_is_taken(server: Server, namespace: str) -> None:
    assert server.create(namespace, resource(name="s" * 50))["metadata"]["name"] == "s" * 50


def test_no_default_is_written_into_a_resource(server: Server, namespace: str) -> None:
    asked = resource()
    assert server.create(namespace, asked)["spec"] == asked["spec"]
