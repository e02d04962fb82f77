"""Who is measured: our operator, and Argo Rollouts with as many resources on the same ladder."""

from collections.abc import Callable
from contextlib import AbstractContextManager
from dataclasses import dataclass
from pathlib import Path

from diffusion_operator.api import labels
from diffusion_operator.api.crd import CRD_PATH

from benchmarks.machine import REPOSITORY
from benchmarks.operator import argo
from benchmarks.operator.api import Change, Json
from benchmarks.operator.processes import Operator, our_operator

NAMESPACE = "bench"


@dataclass(frozen=True)
class Stage:
    """A part of the way to mid-canary: what is asked of each resource (None: its creation), and how it is when it is through."""

    is_reached: Callable[[Change], bool]
    patch: Json | None = None


@dataclass(frozen=True)
class Contestant:
    """A program that rolls out.

    `resources` and `children` are paths of collections in the namespace, `kind` what kubectl calls the former. `of` finds the
    name of a child's resource, `replaced` the selector of children that may be deleted, `changed` a new revision by number.
    """

    name: str
    crds: Callable[[], tuple[Path, ...]]
    kind: str
    resources: str
    children: str
    resource: Callable[[int], Json]
    stages: tuple[Stage, ...]
    of: Callable[[Json], str | None]
    replaced: Callable[[str], str]
    changed: Callable[[int], Json]
    started: Callable[[Path, Path], AbstractContextManager[Operator]]


def _our_resource(number: int) -> Json:
    return {
        "apiVersion": labels.API_VERSION,
        "kind": labels.KIND,
        "metadata": {"name": f"model-{number}"},
        "spec": {
            "model": {"source": f"file:///models/{number}"},
            "fallback": {"model": {"source": f"file:///models/{number}-ar"}},
        },
    }


def _is_in_mid_canary(change: Change) -> bool:
    """At the first weight, and its time has begun to count."""
    rollout = change.object.get("status", {}).get("rollout", {})
    return bool(rollout.get("canaryPercent") == 5 and (rollout.get("canary") or {}).get("isObserving"))


def _label(name: str) -> Callable[[Json], str | None]:
    return lambda item: item["metadata"].get("labels", {}).get(name)


OURS = Contestant(
    name="diffusion-operator",
    crds=lambda: (REPOSITORY / CRD_PATH,),
    kind="dm",
    resources=f"/apis/{labels.API_VERSION}/namespaces/{NAMESPACE}/{labels.PLURAL}",
    children=f"/apis/apps/v1/namespaces/{NAMESPACE}/deployments",
    resource=_our_resource,
    stages=(Stage(_is_in_mid_canary),),
    of=_label(labels.MODEL),
    replaced=lambda name: f"{labels.MODEL}%3D{name},{labels.ARM_KIND}%3Ddiffusion",
    changed=lambda number: {"spec": {"sampler": {"maxDenoisingSteps": 5 + number}}},
    started=our_operator,
)


def _has_phase(phase: str) -> Callable[[Change], bool]:
    def has(change: Change) -> bool:
        status, generation = change.object.get("status", {}), change.object["metadata"]["generation"]
        return bool(status.get("phase") == phase and status.get("observedGeneration") == str(generation))

    return has


# It starts no canary at the first revision, so it gets a second one.
ARGO = Contestant(
    name=f"Argo Rollouts {argo.VERSION.removeprefix('v')}",
    crds=argo.crds,
    kind="rollouts",
    resources=f"/apis/argoproj.io/v1alpha1/namespaces/{NAMESPACE}/rollouts",
    children=f"/apis/apps/v1/namespaces/{NAMESPACE}/replicasets",
    resource=argo.rollout,
    stages=(Stage(_has_phase("Healthy")), Stage(_has_phase("Paused"), patch=argo.revision("b"))),
    of=_label("app"),
    replaced=lambda name: f"app%3D{name}",
    changed=lambda number: argo.revision(f"c{number}"),
    started=argo.controller,
)
