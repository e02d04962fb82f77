"""The objects of a revision."""

import json
from typing import Any

import pytest
from diffusion_gateway.settings import Settings
from diffusion_operator.api.models import DiffusionModel
from diffusion_operator.core.children import Child, ChildKind, children, made_of
from diffusion_worker.config import EngineConfig, MaskCache, SamplerConfig
from google.protobuf import text_format
from kubernetes.client import V1ConfigMap, V1Deployment, V1Service
from tritonclient.grpc import model_config_pb2

from tests.unit.operator.builders import a_model, after, ar, diffusion, seen

MODELS = {ChildKind.DEPLOYMENT: V1Deployment, ChildKind.SERVICE: V1Service, ChildKind.CONFIG_MAP: V1ConfigMap}

SPECS: dict[str, dict[str, Any]] = {
    "the least": {},
    "on GPUs": {
        "model": {"source": "hf://google/diffusiongemma", "revision": "0123abc", "dtype": "bfloat16"},
        "resources": {
            "gpus": 2,
            "cpu": 8,
            "memory": "64Gi",
            "shmSize": "8Gi",
            "nodeSelector": {"gpu": "h100"},
            "tolerations": [{"key": "gpu", "operator": "Exists", "effect": "NoExecute", "tolerationSeconds": 30}],
            "runtimeClassName": "nvidia",
        },
    },
    "from a claim": {"model": {"source": "pvc://weights/deep/folder/"}},
    "from an image": {"model": {"source": "image://registry.test/model@sha256:00"}},
    "with every sampler field": {
        "sampler": {  # more than any one sampler knows
            "name": "discrete_ddim",
            "canvasLength": 64,
            "maxDenoisingSteps": 20,
            "schedule": "cosine",
            "adaptive": True,
            "temperature": {"min": 0.8, "max": 1.2},
            "topP": 0.9,
            "guidanceScale": 0.8,
            "deterministic": False,
            "stochasticity": 0.5,
            "stabilityThreshold": 2,
            "confidenceThreshold": 0.1,
            "entropyBound": 0.3,
            "acceptThreshold": 0.9,
        },
        "attention": {"window": 512, "sink": 64, "maskCache": "dual"},
        "limits": {"maxBatchSize": 32, "maxSequenceLength": 2048, "batchWindow": "75ms", "requestTimeout": "1m30s"},
    },
}


def made(**spec: Any) -> tuple[DiffusionModel, dict[tuple[str, ChildKind], Child]]:
    """A resource after its first decision, and its children by revision and kind."""
    model = after(a_model(**spec), seen())
    return model, {(child.revision, child.kind): child for child in children(model)}


def pod(
    model: DiffusionModel, found: dict[tuple[str, ChildKind], Child], *, revision: str | None = None
) -> dict[str, Any]:
    """Pod spec of a revision, the diffusion one if none is named."""
    manifest = found[revision or diffusion(model), ChildKind.DEPLOYMENT].manifest
    spec: dict[str, Any] = manifest["spec"]["template"]["spec"]
    return spec


def config(model: DiffusionModel, found: dict[tuple[str, ChildKind], Child], revision: str) -> EngineConfig:
    return EngineConfig.model_validate_json(found[revision, ChildKind.CONFIG_MAP].manifest["data"]["model.json"])


@pytest.mark.parametrize("spec", SPECS.values(), ids=SPECS.keys())
def test_manifests_are_what_kubernetes_knows(spec: dict[str, Any]) -> None:
    _, found = made(**spec)
    assert len(found) == 6
    for child in found.values():
        MODELS[child.kind].model_validate(json.loads(json.dumps(child.manifest)))


@pytest.mark.parametrize("spec", SPECS.values(), ids=SPECS.keys())
def test_both_files_are_what_their_readers_know(spec: dict[str, Any]) -> None:
    model, found = made(**spec)
    for revision, kind in ((diffusion(model), "diffusion"), (ar(model), "ar")):
        data = found[revision, ChildKind.CONFIG_MAP].manifest["data"]
        engine = EngineConfig.model_validate_json(data["model.json"])
        assert (engine.kind, engine.revision, engine.model) == (kind, revision, "storyteller")
        triton = text_format.Parse(data["config.pbtxt"], model_config_pb2.ModelConfig())
        assert (triton.name, triton.backend, triton.model_transaction_policy.decoupled) == ("dlm", "dlm", True)
        assert triton.max_batch_size == engine.max_batch_size


def test_triton_refuses_what_waits_too_long_and_never_delays() -> None:
    model, found = made(limits={"queueSize": 7, "requestTimeout": "1m30s", "maxBatchSize": 32})
    text = found[diffusion(model), ChildKind.CONFIG_MAP].manifest["data"]["config.pbtxt"]
    batching = text_format.Parse(text, model_config_pb2.ModelConfig()).dynamic_batching
    policy = batching.default_queue_policy
    assert batching.max_queue_delay_microseconds == 0
    assert (policy.max_queue_size, policy.default_timeout_microseconds) == (7, 90_000_000)
    assert policy.timeout_action == model_config_pb2.ModelQueuePolicy.REJECT


def test_scores_wait_behind_answers_in_ar_workers() -> None:
    model, found = made()
    levels = {}
    for revision in (diffusion(model), ar(model)):
        text = found[revision, ChildKind.CONFIG_MAP].manifest["data"]["config.pbtxt"]
        batching = text_format.Parse(text, model_config_pb2.ModelConfig()).dynamic_batching
        levels[revision] = (batching.priority_levels, batching.default_priority_level)
    assert levels == {diffusion(model): (0, 0), ar(model): (2, 1)}


@pytest.mark.parametrize(("gpus", "kind"), [(0, "KIND_CPU"), (1, "KIND_GPU")])
def test_triton_is_told_where_the_model_runs(gpus: int, kind: str) -> None:
    model, found = made(resources={"gpus": gpus})
    assert kind in found[diffusion(model), ChildKind.CONFIG_MAP].manifest["data"]["config.pbtxt"]


def test_the_engine_gets_what_the_spec_says() -> None:
    model, found = made(**SPECS["with every sampler field"])
    engine = config(model, found, diffusion(model))
    assert engine.sampler.model_dump(mode="json") == {
        "name": "discrete_ddim",
        "canvas_length": 64,
        "max_denoising_steps": 20,
        "schedule": "cosine",
        "adaptive": True,
        "temperature_min": 0.8,
        "temperature_max": 1.2,
        "top_p": 0.9,
        "guidance_scale": 0.8,
        "deterministic": False,
        "stochasticity": 0.5,
        "stability_threshold": 2,
        "confidence_threshold": 0.1,
        "entropy_bound": 0.3,
        "accept_threshold": 0.9,
    }
    assert (engine.full_attention_window, engine.full_attention_sink, engine.mask_cache) == (512, 64, MaskCache.DUAL)
    assert (engine.max_batch_size, engine.max_sequence_length, engine.batch_window_seconds) == (32, 2048, 0.075)


def test_without_a_sampler_the_checkpoint_decides() -> None:
    model, found = made()
    engine = config(model, found, diffusion(model))
    assert engine.sampler == SamplerConfig()
    assert (engine.full_attention_window, engine.full_attention_sink) == (None, 0)
    assert engine.mask_cache is EngineConfig.model_fields["mask_cache"].default


def test_a_worker_is_told_only_what_says_something() -> None:
    """A worker of an older release refuses settings that it does not know, and its revision's file is written anew."""
    model, found = made()
    data = json.loads(found[diffusion(model), ChildKind.CONFIG_MAP].manifest["data"]["model.json"])
    assert data == {
        "kind": "diffusion",
        "model": "storyteller",
        "revision": diffusion(model),
        "source": "file:///models/storyteller",
        "path": "/models/storyteller",
        "device": "cpu",
    }


@pytest.mark.parametrize(
    ("source", "path", "volume"),
    [
        ("file:///models/storyteller", "/models/storyteller", None),
        ("hf://google/gemma", None, {"name": "cache", "emptyDir": {}}),
        (
            "pvc://weights/deep/folder/",
            "/models/source/deep/folder",
            {"name": "source", "persistentVolumeClaim": {"claimName": "weights", "readOnly": True}},
        ),
        (
            "pvc://weights",
            "/models/source",
            {"name": "source", "persistentVolumeClaim": {"claimName": "weights", "readOnly": True}},
        ),
        (
            "image://registry.test/m:1",
            "/models/source",
            {"name": "source", "image": {"reference": "registry.test/m:1", "pullPolicy": "IfNotPresent"}},
        ),
    ],
)
def test_the_pod_sees_its_checkpoint(source: str, path: str | None, volume: dict[str, Any] | None) -> None:
    model, found = made(model={"source": source})
    assert config(model, found, diffusion(model)).path == path
    spec = pod(model, found)
    extra = [v for v in spec["volumes"] if v["name"] not in {"config", "tmp", "shm"}]
    assert extra == ([volume] if volume else [])
    mounts = {mount["name"]: mount for mount in spec["containers"][0]["volumeMounts"]}
    assert set(mounts) == {v["name"] for v in spec["volumes"]}


def test_pods_share_a_cache_where_there_is_a_claim_for_it() -> None:
    model, found = made(model={"source": "hf://org/name"}, resources={"cacheClaim": "models"})
    spec = pod(model, found)
    assert {"name": "cache", "persistentVolumeClaim": {"claimName": "models"}} in spec["volumes"]
    (worker,) = spec["containers"]
    assert {"name": "cache", "mountPath": "/models/cache"} in worker["volumeMounts"]
    assert worker["env"] == [{"name": "HF_HOME", "value": "/models/cache/.home"}]
    assert "env" not in pod(model, found, revision=ar(model))["containers"][0]  # a folder in the image


def test_the_token_of_the_hub_comes_from_a_secret() -> None:
    token = {"name": "hub", "key": "token"}
    model, found = made(model={"source": "hf://org/name", "tokenSecretRef": token})
    (worker,) = pod(model, found)["containers"]
    assert worker["env"] == [{"name": "HF_TOKEN", "valueFrom": {"secretKeyRef": token}}]


def test_the_window_of_the_repetition_gate_goes_to_the_worker() -> None:
    plain, _ = made()
    default, _ = made(rollout={"gates": {"repetitionRate": {"window": 32}}})
    assert diffusion(default) == diffusion(plain)
    model, found = made(rollout={"gates": {"repetitionRate": {"window": 64}}})
    assert config(model, found, diffusion(model)).repetition_window == 64
    assert config(model, found, ar(model)).repetition_window == 64


def test_the_pod_is_restricted() -> None:
    model, found = made()
    spec = pod(model, found)
    (worker,) = spec["containers"]
    assert spec["securityContext"]["runAsNonRoot"] is True
    assert spec["securityContext"]["seccompProfile"] == {"type": "RuntimeDefault"}
    assert spec["automountServiceAccountToken"] is False
    assert worker["securityContext"] == {
        "allowPrivilegeEscalation": False,
        "readOnlyRootFilesystem": True,
        "capabilities": {"drop": ["ALL"]},
    }


def test_a_pod_that_goes_finishes_the_longest_answer_that_a_gateway_waits_for() -> None:
    model, found = made()
    spec = pod(model, found)
    (worker,) = spec["containers"]
    pre_stop = worker["lifecycle"]["preStop"]["sleep"]["seconds"]
    exit_timeout = int(next(a for a in worker["command"] if a.startswith("--exit-timeout=")).partition("=")[2])
    launcher_kills_after = 15  # diffusion_worker.triton.launcher
    assert exit_timeout >= Settings().request_timeout_seconds
    assert spec["terminationGracePeriodSeconds"] > pre_stop + exit_timeout + launcher_kills_after


def test_memory_is_limited_and_cpu_is_not() -> None:
    model, found = made(resources={"cpu": "1500m", "memory": "4Gi", "gpus": 1})
    assert pod(model, found)["containers"][0]["resources"] == {
        "requests": {"cpu": "1500m", "memory": "4Gi", "nvidia.com/gpu": "1"},
        "limits": {"memory": "4Gi", "nvidia.com/gpu": "1"},
    }


@pytest.mark.parametrize(("cpu", "gpus", "threads"), [("1500m", 0, 2), (4, 0, 4), ("250m", 0, 1), (8, 1, 1)])
def test_compute_threads_follow_the_cores(cpu: str | int, gpus: int, threads: int) -> None:
    model, found = made(resources={"cpu": cpu, "gpus": gpus})
    assert config(model, found, diffusion(model)).threads == threads


def test_shared_memory_is_larger_than_a_containers_own() -> None:
    model, found = made()
    shm = next(v for v in pod(model, found)["volumes"] if v["name"] == "shm")
    assert shm["emptyDir"] == {"medium": "Memory", "sizeLimit": "256Mi"}


def test_the_service_selects_the_pods_of_its_revision_only() -> None:
    model, found = made()
    for revision in (diffusion(model), ar(model)):
        selector = found[revision, ChildKind.SERVICE].manifest["spec"]["selector"]
        for other in (diffusion(model), ar(model)):
            labels = found[other, ChildKind.DEPLOYMENT].manifest["spec"]["template"]["metadata"]["labels"]
            assert (selector.items() <= labels.items()) == (revision == other)


def test_names_are_short_enough_for_a_service() -> None:
    model = after(a_model(), seen())
    longest = model.model_copy(update={"metadata": model.metadata.model_copy(update={"name": "s" * 50})})
    assert all(len(child.name) <= 63 for child in children(longest))


def test_children_belong_to_their_resource() -> None:
    _, found = made()
    for child in found.values():
        (owner,) = child.manifest["metadata"]["ownerReferences"]
        assert (owner["kind"], owner["uid"]) == ("DiffusionModel", "11111111-2222-3333-4444-555555555555")
        assert owner["blockOwnerDeletion"] is True


def test_the_same_resource_gives_the_same_children() -> None:
    assert made()[1] == made()[1]


def test_replicas_do_not_change_what_pods_are_made_of() -> None:
    model, one = made(replicas=1)
    _, five = made(replicas=5)
    key = (diffusion(model), ChildKind.DEPLOYMENT)
    assert one[key].manifest["spec"]["template"] == five[key].manifest["spec"]["template"]
    assert five[key].manifest["spec"]["replicas"] == 5


def test_what_children_are_made_of_stays_while_they_do() -> None:
    model, _ = made()
    status = model.status
    ready = [one.model_copy(update={"ready_pods": 1, "has_been_ready": True}) for one in status.revisions]
    routes = status.routes.model_copy(update={"generation": 7})
    later = model.model_copy(
        update={"status": status.model_copy(update={"revisions": ready, "routes": routes, "conditions": []})}
    )
    assert children(later) == children(model)
    assert made_of(later) == made_of(model)


def test_what_children_are_made_of_changes_with_them() -> None:
    model, _ = made()
    status = model.status
    first, *others = status.revisions
    other_template = first.template.model_copy(update={"image": "registry.test/worker:2"})
    changed = [
        status.model_copy(update={"revisions": others}),
        status.model_copy(update={"revisions": [first.model_copy(update={"template": other_template}), *others]}),
        status.model_copy(update={"revisions": [first.model_copy(update={"main_memory_bytes": 2**30}), *others]}),
    ]
    models = [model, *(model.model_copy(update={"status": each}) for each in changed)]
    for name, value in (("generation", 99), ("uid", "another")):
        models.append(model.model_copy(update={"metadata": model.metadata.model_copy(update={name: value})}))
    assert len({made_of(each) for each in models}) == len(models)
