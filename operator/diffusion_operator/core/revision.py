"""Which revisions a spec asks for.

A revision is everything that changes outputs or pods. Its name is the hash of its template, so that the same spec
under the same worker image is always the same revision, also after a detour over another one. Fields that nothing acts
on are left out: setting one must not replace pods. Absent fields are left out as well, so that a field that a later
release adds does not rename running revisions.
"""

import hashlib
import json
from collections.abc import Mapping
from dataclasses import dataclass

from diffusion_worker.config import SamplerName

from diffusion_operator.api.models import (
    ArmKind,
    DiffusionModelSpec,
    EngineLimits,
    FallbackEndpoint,
    Limits,
    ModelSource,
    Resources,
    RevisionStatus,
    RevisionTemplate,
    Sampler,
    endpoint_hash,
)

from . import defaults
from .sized.fit import NO_FITS, Fit, memory_plan


@dataclass(frozen=True, slots=True)
class Wanted:
    """The revisions that spec asks for. `ar` is None when the fallback is not served by us but is an `endpoint`."""

    diffusion: RevisionStatus
    ar: RevisionStatus | None
    endpoint: FallbackEndpoint | None = None

    @property
    def ar_hash(self) -> str:
        """What the AR side is called, whoever serves it."""
        if self.ar is not None:
            return self.ar.hash
        assert self.endpoint is not None  # noqa: S101 - for the type checker: spec has one of the two
        return endpoint_hash(self.endpoint)


def wanted(spec: DiffusionModelSpec, *, image: str, fits: Mapping[ArmKind, Fit] = NO_FITS) -> Wanted:
    """The diffusion revision and the AR revision of a spec under a worker image, with what was planned for them."""
    arms = {ArmKind.DIFFUSION: spec.model, ArmKind.AR: spec.fallback.model}
    made = {
        kind: _revision(_template(spec, kind, source, image=image, fit=fits.get(kind)), fits.get(kind))
        for kind, source in arms.items()
        if source is not None
    }
    return Wanted(diffusion=made[ArmKind.DIFFUSION], ar=made.get(ArmKind.AR), endpoint=spec.fallback.endpoint)


def _template(
    spec: DiffusionModelSpec, kind: ArmKind, source: ModelSource, *, image: str, fit: Fit | None
) -> RevisionTemplate:
    is_diffusion = kind is ArmKind.DIFFUSION
    return RevisionTemplate(
        kind=kind,
        image=image,
        model=source,
        sampler=(spec.sampler or Sampler()) if is_diffusion else None,
        attention=spec.attention if is_diffusion and spec.attention and spec.attention.to_wire() else None,
        limits=limits_in_force(spec.limits or Limits(), fit),
        resources=_acted_on(spec.resources or Resources()),
        repetition_window=_repetition_window(spec),
    )


def revision_hash(template: RevisionTemplate) -> str:
    """8 lower-case hex digits that name a revision."""
    wire = template.to_wire()
    if template.sampler is not None:
        # The first release wrote the name of what was then the only sampler into every revision.
        wire["sampler"].setdefault("name", SamplerName.ENTROPY_BOUND)
    text = json.dumps(wire, sort_keys=True, separators=(",", ":"))
    return hashlib.sha256(text.encode()).hexdigest()[:8]


def limits_in_force(limits: Limits, fit: Fit | None = None) -> EngineLimits:
    """Limits as numbers. `auto` is what was planned, and where nothing was, the default."""
    batch, length = limits.max_batch_size, limits.max_sequence_length
    planned_rows = fit.max_batch_size if fit else None
    planned_tokens = fit.max_sequence_length if fit else None
    return EngineLimits(
        max_batch_size=batch if isinstance(batch, int) else planned_rows or defaults.MAX_BATCH_SIZE,
        planned_rows=fit.planned_rows if fit else None,
        max_sequence_length=length if isinstance(length, int) else planned_tokens,
        batch_window=limits.batch_window or defaults.BATCH_WINDOW,
        queue_size=limits.queue_size or defaults.QUEUE_SIZE,
        request_timeout=limits.request_timeout or defaults.REQUEST_TIMEOUT,
    )


def _revision(template: RevisionTemplate, fit: Fit | None) -> RevisionStatus:
    made = RevisionStatus(hash=revision_hash(template), template=template)
    if fit is None or not fit.plan.fits:
        return made
    return made.model_copy(update={"memory": memory_plan(fit.plan), "main_memory_bytes": fit.main_memory_bytes})


def _repetition_window(spec: DiffusionModelSpec) -> int | None:
    """None where it is the default: writing that down must not replace pods."""
    gates = spec.rollout.gates if spec.rollout else None
    window = gates.repetition_rate.window if gates and gates.repetition_rate else None
    return None if window == defaults.REPETITION_WINDOW else window


def _acted_on(resources: Resources) -> Resources:
    """What pods are made of. From the others follow limits, and a revision is named after those."""
    return resources.model_copy(update={"gpu_memory": None, "memory_utilization": None})
