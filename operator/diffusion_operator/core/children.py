"""Which objects must exist: a pure function of a resource and its status."""

import hashlib
import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Any

from diffusion_operator.api import labels
from diffusion_operator.api.models import DiffusionModel, RevisionStatus

from . import defaults, worker_config
from .names import child_labels, child_name, selector
from .pods import pod_spec
from .sized.inspection import Inspection, inspections


class ChildKind(StrEnum):
    """Kinds of objects that we make, in the order in which they are made."""

    CONFIG_MAP = "ConfigMap"
    SERVICE = "Service"
    DEPLOYMENT = "Deployment"
    JOB = "Job"


@dataclass(frozen=True, slots=True)
class Child:
    """An object that must exist. `manifest` is what we apply: all fields that we own, and no other.

    `revision` is the hash in its name: that of a revision, or of the inspection of a checkpoint.
    """

    kind: ChildKind
    namespace: str
    name: str
    revision: str
    manifest: Mapping[str, Any]


def children(model: DiffusionModel) -> tuple[Child, ...]:
    """All objects of all revisions in the status of `model`, and the Jobs that inspect its checkpoints."""
    of_revisions = (child for revision in model.status.revisions for child in _of_revision(model, revision))
    jobs = (_job(model, inspection) for inspection in inspections(model, model.status.sizing))
    return (*of_revisions, *jobs)


def made_of(model: DiffusionModel) -> str:
    """16 hex digits that change when anything does that children are made of. Spec changes with its generation.

    Cheap where `children` is not: most changes of a resource are those of its own status, and none of these.
    """
    status = model.status
    parts = [
        model.metadata.uid,
        str(model.metadata.generation),
        status.sizing.model_dump_json() if status.sizing else "",
    ]
    parts += [revision.model_dump_json(exclude={"ready_pods", "has_been_ready"}) for revision in status.revisions]
    return _digest("\n".join(parts))


def _job(model: DiffusionModel, inspection: Inspection) -> Child:
    own = inspection.spec["template"]["metadata"]["labels"]
    return _child(model, inspection.hash, ChildKind.JOB, own, {"apiVersion": "batch/v1", "spec": inspection.spec})


def _of_revision(model: DiffusionModel, revision: RevisionStatus) -> Iterator[Child]:
    name = child_name(model.metadata.name, revision.hash)
    own = selector(model.metadata.name, revision.hash)
    marks = child_labels(model.metadata.name, revision.hash, kind=revision.template.kind)
    files = worker_config.files(model.metadata.name, revision)
    yield _child(
        model,
        revision.hash,
        ChildKind.CONFIG_MAP,
        marks,
        {
            "apiVersion": "v1",
            "data": files,
        },
    )
    yield _child(
        model,
        revision.hash,
        ChildKind.SERVICE,
        marks,
        {
            "apiVersion": "v1",
            # Headless: the gateway chooses a pod itself, and must know of each whether it is ready.
            "spec": {
                "clusterIP": "None",
                "selector": own,
                "ports": [
                    {"name": "http", "port": labels.HTTP_PORT, "targetPort": "http", "protocol": "TCP"},
                    {
                        "name": "grpc",
                        "port": labels.GRPC_PORT,
                        "targetPort": "grpc",
                        "protocol": "TCP",
                        "appProtocol": "kubernetes.io/h2c",
                    },
                    {"name": "metrics", "port": labels.METRICS_PORT, "targetPort": "metrics", "protocol": "TCP"},
                ],
            },
        },
    )
    yield _child(
        model,
        revision.hash,
        ChildKind.DEPLOYMENT,
        marks,
        {
            "apiVersion": "apps/v1",
            "spec": {
                "replicas": model.spec.replicas or defaults.REPLICAS,
                "selector": {"matchLabels": own},
                "strategy": {"type": "RollingUpdate", "rollingUpdate": {"maxUnavailable": 0, "maxSurge": 1}},
                "progressDeadlineSeconds": 600,
                "revisionHistoryLimit": 1,
                "template": {
                    "metadata": {
                        "labels": marks,
                        "annotations": {
                            "prometheus.io/scrape": "true",
                            "prometheus.io/port": str(labels.METRICS_PORT),
                            "prometheus.io/path": "/metrics",
                            # A worker reads its files once: pods are replaced when a new operator writes them
                            # differently.
                            labels.CONFIG_HASH: manifest_hash(files),
                        },
                    },
                    "spec": pod_spec(revision, config_map=name),
                },
            },
        },
    )


def _child(
    model: DiffusionModel, hash_: str, kind: ChildKind, marks: Mapping[str, str], body: Mapping[str, Any]
) -> Child:
    metadata = model.metadata
    name = child_name(metadata.name, hash_)
    manifest = {
        "apiVersion": body["apiVersion"],
        "kind": kind.value,
        "metadata": {
            "name": name,
            "namespace": metadata.namespace,
            "labels": dict(marks),
            # The garbage collector removes what belongs to a resource that is gone, also while no operator runs.
            "ownerReferences": [
                {
                    "apiVersion": labels.API_VERSION,
                    "kind": labels.KIND,
                    "name": metadata.name,
                    "uid": metadata.uid,
                    "controller": True,
                    "blockOwnerDeletion": True,
                }
            ],
        },
        **{key: value for key, value in body.items() if key != "apiVersion"},
    }
    manifest["metadata"]["annotations"] = {labels.APPLIED_HASH: manifest_hash(manifest)}
    return Child(kind=kind, namespace=metadata.namespace, name=name, revision=hash_, manifest=manifest)


def manifest_hash(manifest: Mapping[str, Any]) -> str:
    """16 hex digits that change when anything in a manifest does."""
    return _digest(json.dumps(manifest, sort_keys=True, separators=(",", ":")))


def _digest(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()[:16]
