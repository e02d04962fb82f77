"""The Job that reads the headers of a checkpoint, before anything is made of it."""

import hashlib
import json
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from diffusion_operator.api import labels
from diffusion_operator.api.models import (
    DiffusionModel,
    DiffusionModelSpec,
    InspectedSource,
    ModelSource,
    Resources,
    Sizing,
)
from diffusion_operator.core.pods import container_security, hub_environment, model_volume, placement, pod_security
from diffusion_operator.core.sources import CACHE, Scheme, parse_source

# Reading headers takes a second and tens of megabytes; the rest is room for a slow hub.
_REQUESTS = {"cpu": "100m", "memory": "256Mi"}
_LIMITS = {"memory": "512Mi"}
# The pod may have to wait for a node, as those of the model will.
_DEADLINE_SECONDS = 3600
# We remove it as soon as it was read; this is for a time without an operator.
_KEPT_SECONDS = 600


@dataclass(frozen=True, slots=True)
class Inspection:
    """A Job that must exist. `hash` names it: 8 hex digits that change with all that it is made of."""

    key: str
    hash: str
    spec: dict[str, Any]


def source_key(model: ModelSource) -> str:
    """8 hex digits for what facts depend on: where the checkpoint is, and with whose token it is read."""
    return _digits(model.model_copy(update={"dtype": None}).to_wire())


def inspections(model: DiffusionModel, sizing: Sizing | None) -> Iterator[Inspection]:
    """The Jobs that a resource needs now, by its spec and what is known of its checkpoints."""
    sources = sources_of(model.spec)
    for inspected in sizing.sources if sizing else ():
        source = sources.get(inspected.key)
        if source is not None and is_due(inspected):
            yield inspection(
                inspected, source, model=model.metadata.name, resources=model.spec.resources or Resources()
            )


def is_due(inspected: InspectedSource) -> bool:
    """Whether a Job must exist."""
    return inspected.facts is None and inspected.retry_at is None


def inspection(inspected: InspectedSource, source: ModelSource, *, model: str, resources: Resources) -> Inspection:
    """The Job for a checkpoint of `model`. It goes where the model's pods will: their image is needed there anyway."""
    volumes, mounts = model_volume(source, cache_claim=resources.cache_claim)
    command = ["diffusion-worker", "inspect", source.source, "--output=json"]
    command.append("--termination-message=/dev/termination-log")
    if source.revision:
        command.append(f"--revision={source.revision}")
    if parse_source(source.source).scheme is Scheme.HUB:
        command.append(f"--cache={CACHE}")
    pod = {
        "automountServiceAccountToken": False,
        "enableServiceLinks": False,
        "restartPolicy": "Never",
        "securityContext": pod_security(),
        "containers": [
            {
                "name": "inspect",
                "image": inspected.image,
                "command": command,
                **hub_environment(source, cache_claim=resources.cache_claim),
                "resources": {"requests": _REQUESTS, "limits": _LIMITS},
                "securityContext": container_security(),
                "terminationMessagePolicy": "FallbackToLogsOnError",
                "volumeMounts": [{"name": "tmp", "mountPath": "/tmp"}, *mounts],  # noqa: S108 - a path in the pod
            }
        ],
        "volumes": [{"name": "tmp", "emptyDir": {}}, *volumes],
        **placement(resources),
    }
    # A Job's pod cannot be changed: another pod or another attempt is another Job.
    digits = _digits({"pod": pod, "attempt": inspected.attempts})
    return Inspection(
        key=inspected.key,
        hash=digits,
        spec={
            "backoffLimit": 0,
            "activeDeadlineSeconds": _DEADLINE_SECONDS,
            "ttlSecondsAfterFinished": _KEPT_SECONDS,
            "template": {
                "metadata": {
                    "labels": {
                        labels.MANAGED_BY: labels.MANAGED_BY_VALUE,
                        labels.APP_NAME: labels.INSPECTION_APP_NAME,
                        labels.MODEL: model,
                        labels.INSPECTION: digits,
                    }
                },
                "spec": pod,
            },
        },
    )


def sources_of(spec: DiffusionModelSpec) -> dict[str, ModelSource]:
    """The checkpoints that a spec names, by key."""
    found = (spec.model, spec.fallback.model)
    return {source_key(source): source for source in found if source is not None}


def _digits(content: dict[str, Any]) -> str:
    text = json.dumps(content, sort_keys=True, separators=(",", ":"))
    return hashlib.sha256(text.encode()).hexdigest()[:8]
