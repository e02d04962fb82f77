"""Decisions about memory for tests: a resource, what Jobs found, and what came of it."""

from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any

from diffusion_operator.api.models import DiffusionModel, MeasuredMemory
from diffusion_operator.core.observation import Observation, ObservedPods
from diffusion_operator.core.sized.inspection import Inspection, inspections, source_key
from diffusion_operator.core.sized.observation import ObservedInspection, ObservedNodes, ObservedSizing
from diffusion_operator.core.step import Decision, Settings, step
from diffusion_worker.inspect.facts import Family, ModelFacts
from diffusion_worker.inspect.message import facts_message

from tests.unit.operator.builders import IMAGE, a_model
from tests.unit.sizing.shapes import KNOWN

NOW = datetime(2026, 1, 1, tzinfo=UTC)
FACTS = {known.name: known.facts for known in KNOWN}
GIB = 1024**3
DIFFUSION_GEMMA = "DiffusionGemma 26B-A4B"


def settings(image: str = IMAGE) -> Settings:
    return Settings(worker_image=image, gateway_url="http://gateway:8080/v1", sizing=True)


def a_gpu_model(**spec: Any) -> DiffusionModel:
    """A resource on one GPU of 80 GiB, with limits that fit; `resources` and `limits` replace those."""
    return a_model(
        **{
            "resources": {"gpus": 1, "gpuMemory": "80Gi"},
            "limits": {"maxBatchSize": 8, "maxSequenceLength": 2048},
            **spec,
        }
    )


def decide(
    model: DiffusionModel,
    *,
    inspected: Mapping[str, ObservedInspection] | None = None,
    nodes: ObservedNodes | None = None,
    measured: Mapping[str, MeasuredMemory] | None = None,
    ready: tuple[str, ...] = (),
    now: datetime = NOW,
    image: str = IMAGE,
) -> Decision:
    """One step, with sizing on."""
    seen = Observation(
        pods={hash_: ObservedPods(ready=1, pods=1) for hash_ in ready},
        children=frozenset(ready),
        sizing=ObservedSizing(inspections=inspected or {}, nodes=nodes, measured=measured or {}),
    )
    return step(model, seen, settings=settings(image), now=now)


def after(model: DiffusionModel, /, **observed: Any) -> DiffusionModel:
    """The resource after the decision on an observation."""
    return model.model_copy(update={"status": decide(model, **observed).status})


def jobs(model: DiffusionModel) -> dict[str, Inspection]:
    """Jobs that must exist, by the key of the source."""
    return {job.key: job for job in inspections(model, model.status.sizing)}


def succeeded(facts: ModelFacts) -> ObservedInspection:
    return ObservedInspection(has_ended=True, succeeded=True, message=facts_message(facts))


def failed(message: str) -> ObservedInspection:
    return ObservedInspection(has_ended=True, message=message)


def found(
    model: DiffusionModel, diffusion: ObservedInspection, ar: ObservedInspection
) -> dict[str, ObservedInspection]:
    """What the Jobs of both arms found, by the hashes of the Jobs that must exist."""
    assert model.spec.fallback.model is not None
    results = {source_key(model.spec.model): diffusion, source_key(model.spec.fallback.model): ar}
    return {job.hash: results[key] for key, job in jobs(model).items()}


def inspected(model: DiffusionModel, diffusion: str = DIFFUSION_GEMMA, ar: str = "", **observed: Any) -> DiffusionModel:
    """The resource after its Jobs were made and found these known shapes."""
    model = after(model, **observed)
    diffusion_facts = FACTS[diffusion]
    return after(
        model,
        inspected=found(model, succeeded(diffusion_facts), succeeded(FACTS[ar] if ar else an_ar_twin(diffusion_facts))),
        **observed,
    )


def an_ar_twin(facts: ModelFacts) -> ModelFacts:
    """The same model, as one that makes text token by token."""
    return facts.model_copy(update={"family": Family.AUTOREGRESSIVE, "canvas_length": None, "self_conditioning": False})


def condition(model: DiffusionModel, type_: str) -> tuple[str, str, str]:
    """(status, reason, message)."""
    return next((c.status.value, c.reason, c.message) for c in model.status.conditions if c.type == type_)
