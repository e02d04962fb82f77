"""The pod of a revision. Restricted in the sense of the pod security standards, with nothing writable but memory and scratch."""

from math import ceil
from typing import Any

from diffusion_operator.api import labels
from diffusion_operator.api.models import ModelSource, Resources, RevisionStatus

from . import defaults
from .sources import CACHE, MOUNT, Scheme, parse_source

CONFIG_FOLDER = "/etc/dlm"
_USER = 65532

# After SIGTERM is due, the pod first leaves the EndpointSlices: gateways need a moment to hear of it.
_PRE_STOP_SECONDS = 5
# Then requests in flight are finished, for as long as a gateway waits for an answer (its --request-timeout-seconds). Triton ends as
# soon as they are; the launcher kills one that does not.
_EXIT_TIMEOUT_SECONDS = 300
_LAUNCHER_SECONDS = 25
_GRACE_SECONDS = _PRE_STOP_SECONDS + _EXIT_TIMEOUT_SECONDS + _LAUNCHER_SECONDS
# A pod that does not answer its liveness probe is not going to finish anything.
_HUNG_GRACE_SECONDS = 60

# Loading may include a download of a large checkpoint: an hour before a pod is restarted for not coming up.
_STARTUP_PERIOD_SECONDS = 2
_STARTUP_ATTEMPTS = 1800

_READY_PATH = "/v2/models/dlm/ready"
_LIVE_PATH = "/v2/health/live"


def pod_spec(revision: RevisionStatus, *, config_map: str) -> dict[str, Any]:
    """Pod spec of a revision."""
    template = revision.template
    resources = template.resources
    volumes, mounts = model_volume(template.model, cache_claim=resources.cache_claim)
    spec: dict[str, Any] = {
        "automountServiceAccountToken": False,
        "enableServiceLinks": False,
        "terminationGracePeriodSeconds": _GRACE_SECONDS,
        "securityContext": pod_security(),
        "containers": [
            {
                "name": "worker",
                "image": template.image,
                "command": [
                    "diffusion-worker",
                    "serve",
                    f"--config={CONFIG_FOLDER}",
                    f"--exit-timeout={_EXIT_TIMEOUT_SECONDS}",
                ],
                "ports": [
                    {"name": "http", "containerPort": labels.HTTP_PORT},
                    {"name": "grpc", "containerPort": labels.GRPC_PORT},
                    {"name": "metrics", "containerPort": labels.METRICS_PORT},
                ],
                **hub_environment(template.model, cache_claim=resources.cache_claim),
                "resources": _container_resources(resources, main_memory_bytes=revision.main_memory_bytes),
                "securityContext": container_security(),
                "startupProbe": {
                    "httpGet": {"path": _READY_PATH, "port": "http"},
                    "periodSeconds": _STARTUP_PERIOD_SECONDS,
                    "failureThreshold": _STARTUP_ATTEMPTS,
                },
                "readinessProbe": {
                    "httpGet": {"path": _READY_PATH, "port": "http"},
                    "periodSeconds": 2,
                    "timeoutSeconds": 2,
                    "failureThreshold": 2,
                },
                "livenessProbe": {
                    "httpGet": {"path": _LIVE_PATH, "port": "http"},
                    "periodSeconds": 10,
                    "timeoutSeconds": 5,
                    "failureThreshold": 3,
                    "terminationGracePeriodSeconds": _HUNG_GRACE_SECONDS,
                },
                "lifecycle": {"preStop": {"sleep": {"seconds": _PRE_STOP_SECONDS}}},
                "terminationMessagePolicy": "FallbackToLogsOnError",
                "volumeMounts": [
                    {"name": "config", "mountPath": CONFIG_FOLDER, "readOnly": True},
                    {"name": "tmp", "mountPath": "/tmp"},  # noqa: S108 - a path in the pod
                    {"name": "shm", "mountPath": "/dev/shm"},  # noqa: S108 - a path in the pod
                    *mounts,
                ],
            }
        ],
        "volumes": [
            {"name": "config", "configMap": {"name": config_map}},
            {"name": "tmp", "emptyDir": {}},
            {
                "name": "shm",
                "emptyDir": {"medium": "Memory", "sizeLimit": str(resources.shm_size or defaults.SHM_SIZE)},
            },
            *volumes,
        ],
    }
    spec |= placement(resources)
    if resources.runtime_class_name:
        spec["runtimeClassName"] = resources.runtime_class_name
    return spec


def pod_security() -> dict[str, Any]:
    """Security context of a pod of ours: an ordinary user, in the sense of the restricted standard."""
    return {
        "runAsNonRoot": True,
        "runAsUser": _USER,
        "runAsGroup": _USER,
        "fsGroup": _USER,
        "seccompProfile": {"type": "RuntimeDefault"},
    }


def container_security() -> dict[str, Any]:
    """Security context of a container of ours."""
    return {
        "allowPrivilegeEscalation": False,
        "readOnlyRootFilesystem": True,
        "capabilities": {"drop": ["ALL"]},
    }


def placement(resources: Resources) -> dict[str, Any]:
    """Fields of a pod that say on which nodes it may run."""
    found: dict[str, Any] = {}
    if resources.node_selector:
        found["nodeSelector"] = resources.node_selector
    if resources.tolerations:
        found["tolerations"] = [toleration.to_wire() for toleration in resources.tolerations]
    return found


def _container_resources(resources: Resources, *, main_memory_bytes: int | None) -> dict[str, Any]:
    """CPU is requested and not limited: a throttled engine is late for every request in its batch."""
    planned = f"{ceil(main_memory_bytes / 1024**2)}Mi" if main_memory_bytes else None
    memory = str(resources.memory or planned or defaults.MEMORY)
    requests = {"cpu": str(resources.cpu or defaults.CPU), "memory": memory}
    limits = {"memory": memory}
    if resources.gpus:
        requests["nvidia.com/gpu"] = limits["nvidia.com/gpu"] = str(resources.gpus)
    return {"requests": requests, "limits": limits}


def model_volume(model: ModelSource, *, cache_claim: str | None) -> tuple[list[dict[str, Any]], list[dict[str, Any]]]:
    """Volumes and mounts through which a pod sees its checkpoint."""
    source = parse_source(model.source)
    match source.scheme:
        case Scheme.CLAIM:
            claim = {"claimName": source.name, "readOnly": True}
            return _read_only({"persistentVolumeClaim": claim})
        case Scheme.IMAGE:
            return _read_only({"image": {"reference": source.name, "pullPolicy": "IfNotPresent"}})
        case Scheme.HUB:
            cache = {"persistentVolumeClaim": {"claimName": cache_claim}} if cache_claim else {"emptyDir": {}}
            return [{"name": "cache", **cache}], [{"name": "cache", "mountPath": CACHE}]
        case Scheme.FILE:
            return [], []


def hub_environment(model: ModelSource, *, cache_claim: str | None) -> dict[str, Any]:
    """The container's environment for the hub, where there is anything to say."""
    found: list[dict[str, Any]] = []
    if model.token_secret_ref:
        found.append({"name": "HF_TOKEN", "valueFrom": {"secretKeyRef": model.token_secret_ref.to_wire()}})
    if cache_claim and parse_source(model.source).scheme is Scheme.HUB:
        # What the hub's client keeps beside checkpoints: its home in the image is read-only.
        found.append({"name": "HF_HOME", "value": f"{CACHE}/.home"})
    return {"env": found} if found else {}


def _read_only(volume: dict[str, Any]) -> tuple[list[dict[str, Any]], list[dict[str, Any]]]:
    return [{"name": "source", **volume}], [{"name": "source", "mountPath": MOUNT, "readOnly": True}]
