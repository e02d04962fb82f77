"""Which revisions a spec asks for.

A revision is everything that changes outputs or pods. Its name is the hash of its template, so that the same spec
under the same worker image is always the same revision, also after a detour over another one. Fields that nothing acts
on are left out: setting one must not replace pods. Absent fields are left out as well, so that a field that a later
release adds does not rename running revisions.
"""

import hashlib
import json
from dataclasses import dataclass

from diffusion_worker.config import SamplerName

from diffusion_operator.api.models import (
    ArmKind,
    DiffusionModelSpec,
    EngineLimits,
    Limits,
    Resources,
    RevisionStatus,
    RevisionTemplate,
    Sampler,
)

from . import defaults


@dataclass(frozen=True, slots=True)
class Wanted:
    """The revisions that spec asks for. `ar` is None when the fallback is not served by us."""

    diffusion: RevisionStatus
    ar: RevisionStatus | None


def wanted(spec: DiffusionModelSpec, *, image: str) -> Wanted:
    """The diffusion revision and the AR revision of a spec under a worker image."""
    limits = limits_in_force(spec.limits or Limits())
    resources = _acted_on(spec.resources or Resources())
    diffusion = RevisionTemplate(
        kind=ArmKind.DIFFUSION,
        image=image,
        model=spec.model,
        sampler=spec.sampler or Sampler(),
        attention=spec.attention if spec.attention and spec.attention.to_wire() else None,
        limits=limits,
        resources=resources,
    )
    ar = spec.fallback.model and RevisionTemplate(
        kind=ArmKind.AR, image=image, model=spec.fallback.model, limits=limits, resources=resources
    )
    return Wanted(diffusion=_revision(diffusion), ar=_revision(ar) if ar else None)


def revision_hash(template: RevisionTemplate) -> str:
    """8 lower-case hex digits that name a revision."""
    wire = template.to_wire()
    if template.sampler is not None:
        # The first release wrote the name of what was then the only sampler into every revision.
        wire["sampler"].setdefault("name", SamplerName.ENTROPY_BOUND)
    text = json.dumps(wire, sort_keys=True, separators=(",", ":"))
    return hashlib.sha256(text.encode()).hexdigest()[:8]


def limits_in_force(limits: Limits) -> EngineLimits:
    """Limits as numbers. `auto` is not planned from memory yet and means the default."""
    batch, length = limits.max_batch_size, limits.max_sequence_length
    return EngineLimits(
        max_batch_size=batch if isinstance(batch, int) else defaults.MAX_BATCH_SIZE,
        max_sequence_length=length if isinstance(length, int) else None,
        batch_window=limits.batch_window or defaults.BATCH_WINDOW,
        queue_size=limits.queue_size or defaults.QUEUE_SIZE,
        request_timeout=limits.request_timeout or defaults.REQUEST_TIMEOUT,
    )


def _revision(template: RevisionTemplate) -> RevisionStatus:
    return RevisionStatus(hash=revision_hash(template), template=template)


def _acted_on(resources: Resources) -> Resources:
    return resources.model_copy(update={"gpu_memory": None, "memory_utilization": None})
