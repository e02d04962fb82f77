"""What is known of the checkpoints that spec names, and when to ask again."""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta

from diffusion_worker.inspect.facts import ModelFacts
from pydantic import ValidationError

from diffusion_operator.api.models import DiffusionModelSpec, InspectedSource, ModelSource, Resources
from diffusion_operator.api.sizing import LONGEST_FACTS, LONGEST_FAILURE

from .inspection import inspection, is_due, sources_of
from .observation import ObservedInspection

_FIRST_RETRY_SECONDS = 10
_LONGEST_RETRY_SECONDS = 3600


@dataclass(frozen=True, slots=True)
class Known:
    """What is known of one checkpoint. `facts` is None while they are being read, or when they cannot be: `failure`."""

    inspected: InspectedSource
    facts: ModelFacts | None
    waiting_for: str = ""

    @property
    def failure(self) -> str:
        """Why there are no facts; empty while nothing went wrong."""
        return self.inspected.failure or ""


def learn(
    before: Mapping[str, InspectedSource],
    *,
    spec: DiffusionModelSpec,
    model: str,
    image: str,
    observed: Mapping[str, ObservedInspection],
    now: datetime,
) -> dict[str, Known]:
    """What is known now, by key. `before` is what was known, `observed` the Jobs by their hash."""
    resources = spec.resources or Resources()
    return {
        key: _learn_one(
            before.get(key) or _new(key, source, image=image),
            source,
            model=model,
            image=image,
            resources=resources,
            observed=observed,
            now=now,
        )
        for key, source in sources_of(spec).items()
    }


def _learn_one(
    inspected: InspectedSource,
    source: ModelSource,
    *,
    model: str,
    image: str,
    resources: Resources,
    observed: Mapping[str, ObservedInspection],
    now: datetime,
) -> Known:
    if inspected.facts is not None:
        facts = _read(inspected.facts)
        if facts is not None:
            return Known(inspected, facts)
        inspected = _new(inspected.key, source, image=image)  # written by another release
    if inspected.image != image:
        inspected = _new(inspected.key, source, image=image)  # another worker may understand what this one did not
    if inspected.retry_at is not None and inspected.retry_at <= now:
        inspected = inspected.model_copy(update={"retry_at": None})
    if not is_due(inspected):
        return Known(inspected, None)
    job = observed.get(inspection(inspected, source, model=model, resources=resources).hash, ObservedInspection())
    if not job.has_ended:
        return Known(inspected, None, waiting_for=job.waiting_for)
    if not job.succeeded:
        return Known(_failed(inspected, job.message or "the Job ended without a word", now=now), None)
    facts = _read(job.message)
    if facts is None:
        why = f"the Job left nothing behind that this operator can read: {job.message[:200]!r}"
        return Known(_failed(inspected, why, now=now), None)
    return Known(inspected.model_copy(update={"facts": job.message, "failure": None}), facts)


def _new(key: str, source: ModelSource, *, image: str) -> InspectedSource:
    return InspectedSource(key=key, source=source.source, image=image)


def _failed(inspected: InspectedSource, why: str, *, now: datetime) -> InspectedSource:
    pause = min(_FIRST_RETRY_SECONDS * 2 ** min(inspected.attempts, 16), _LONGEST_RETRY_SECONDS)
    return inspected.model_copy(
        update={
            "attempts": inspected.attempts + 1,
            "failure": " ".join(why.split())[:LONGEST_FAILURE],
            "retry_at": now + timedelta(seconds=pause),
        }
    )


def _read(text: str) -> ModelFacts | None:
    if len(text) > LONGEST_FACTS:
        return None
    try:
        return ModelFacts.model_validate_json(text)
    except ValidationError:
        return None
