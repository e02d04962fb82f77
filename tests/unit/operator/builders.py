"""Resources and observations for tests, in as few words as possible."""

from collections.abc import Iterable
from datetime import UTC, datetime
from typing import Any

from diffusion_operator.api.models import DiffusionModel, DiffusionModelStatus, parse
from diffusion_operator.core.observation import Observation, ObservedGateway, ObservedPods
from diffusion_operator.core.revision import Wanted, wanted
from diffusion_operator.core.step import Decision, Settings, step

NOW = datetime(2026, 1, 1, tzinfo=UTC)
IMAGE = "registry.test/worker:1"
SETTINGS = Settings(worker_image=IMAGE, gateway_url="http://gateway:8080/v1")


def a_model(status: DiffusionModelStatus | None = None, /, **spec: Any) -> DiffusionModel:
    """A resource as the API server returns it."""
    made = parse(
        {
            "metadata": {
                "name": "storyteller",
                "namespace": "stories",
                "uid": "11111111-2222-3333-4444-555555555555",
                "resourceVersion": "7",
                "generation": 1,
            },
            "spec": {
                "model": {"source": "file:///models/storyteller"},
                "fallback": {"model": {"source": "file:///models/storyteller-ar"}},
                **spec,
            },
        }
    )
    return made.model_copy(update={"status": status}) if status else made


def revisions(model: DiffusionModel) -> Wanted:
    """The revisions that its spec asks for."""
    return wanted(model.spec, image=IMAGE)


def diffusion(model: DiffusionModel) -> str:
    return revisions(model).diffusion.hash


def ar(model: DiffusionModel) -> str:
    made = revisions(model).ar
    assert made is not None
    return made.hash


def seen(
    ready: Iterable[str] = (),
    *,
    pods: int = 1,
    children: Iterable[str] = (),
    gateways: Iterable[ObservedGateway] = (),
    rejected: str = "",
) -> Observation:
    """An observation in which the revisions `ready` have `pods` ready pods each."""
    ready = list(ready)
    return Observation(
        pods={hash_: ObservedPods(ready=pods) for hash_ in ready},
        children=frozenset([*ready, *children]),
        gateways=tuple(gateways),
        rejected=rejected,
    )


def decide(model: DiffusionModel, observation: Observation) -> Decision:
    return step(model, observation, settings=SETTINGS, now=NOW)


def after(model: DiffusionModel, /, *observations: Observation, **spec: Any) -> DiffusionModel:
    """The resource after the decisions on these observations; with `spec`, changed before them."""
    if spec:
        changed = a_model(**spec)
        model = changed.model_copy(
            update={
                "status": model.status,
                "metadata": changed.metadata.model_copy(update={"generation": model.metadata.generation + 1}),
            }
        )
    for observation in observations:
        model = model.model_copy(update={"status": decide(model, observation).status})
    return model


def shares(model: DiffusionModel) -> list[tuple[str, str, int]]:
    """Its arms as (role, revision, percent)."""
    return [(arm.role.value, arm.revision, arm.percent) for arm in model.status.routes.arms]


def reason(model: DiffusionModel, type_: str) -> tuple[str, str]:
    """(status, reason) of a condition."""
    return next((c.status.value, c.reason) for c in model.status.conditions if c.type == type_)
