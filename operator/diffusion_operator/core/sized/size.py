"""One decision about memory: what is known of the checkpoints, what fits, and which revisions must wait."""

from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass, field
from datetime import datetime

from diffusion_operator.api import conditions as reasons
from diffusion_operator.api.conditions import Reason
from diffusion_operator.api.models import (
    ArmKind,
    DiffusionModel,
    InspectedSource,
    MeasuredMemory,
    Resources,
    RevisionStatus,
    SizedArm,
    Sizing,
)
from diffusion_operator.core.revision import Wanted, wanted

from .arms import HOLDS, ArmSize, arm_sizes, finding
from .budget import Memory, memory_of
from .facts import Known, learn
from .fit import memory_plan
from .inspection import inspections
from .measured import Difference, difference
from .observation import ObservedSizing

# As often as a resource is looked at that waits for nothing: nodes may have changed as well.
_LONGEST_LOOK_SECONDS = 600.0
OFF_MESSAGE = "Limits are taken as they are written: the operator runs with --sizing=off."


@dataclass(frozen=True, slots=True)
class Sized:
    """What follows for the rest of the decision.

    `held` are wanted revisions that get no objects now, by hash, with why. `differences` says of which revisions a pod
    took another amount of memory than planned, told once. `stale_jobs` are hashes of Jobs that must go: they were read, or ask what is no question any more.
    `look_again_seconds` is when the next Job is due.
    """

    wanted: Wanted
    reason: Reason
    message: str
    status: Sizing | None = None
    held: Mapping[str, Reason] = field(default_factory=dict)
    differences: tuple[Difference, ...] = ()
    stale_jobs: frozenset[str] = frozenset()
    look_again_seconds: float | None = None


def size(model: DiffusionModel, observed: ObservedSizing, *, image: str, now: datetime, is_on: bool = True) -> Sized:
    """The revisions that spec asks for, with limits that fit, and which of them may not be made yet.

    A revision that has been made is never taken back: its pods run, whatever is planned today.
    """
    if not is_on:
        return Sized(wanted=wanted(model.spec, image=image), reason=reasons.SIZING_OFF, message=OFF_MESSAGE)
    before = model.status.sizing or Sizing()
    known = learn(
        {source.key: source for source in before.sources},
        spec=model.spec,
        model=model.metadata.name,
        image=image,
        observed=observed.inspections,
        now=now,
    )
    memory = memory_of(model.spec.resources or Resources(), before=before, nodes=observed.nodes)
    sizes = arm_sizes(model.spec, known, memory)
    asked = wanted(model.spec, image=image, fits={arm.kind: arm.fit for arm in sizes if arm.fit})
    by_kind = {ArmKind.DIFFUSION: asked.diffusion} | ({ArmKind.AR: asked.ar} if asked.ar else {})
    made = {revision.hash: revision for revision in model.status.revisions}
    arms, differences = _planned(sizes, by_kind, made=made, before=before.arms, measured=observed.measured)
    reason, message = finding(sizes)
    status = _status(memory, known, arms)
    return Sized(
        wanted=asked,
        reason=reason,
        message=message,
        status=status,
        held={
            by_kind[arm.kind].hash: arm.reason
            for arm in sizes
            if arm.reason in HOLDS and by_kind[arm.kind].hash not in made
        },
        differences=differences,
        stale_jobs=frozenset(observed.inspections) - {job.hash for job in inspections(model, status)},
        look_again_seconds=_next_job(known.values(), now=now),
    )


def unmeasured(model: DiffusionModel) -> frozenset[str]:
    """Revisions whose pods were not asked yet what they take."""
    arms = model.status.sizing.arms if model.status.sizing else []
    return frozenset(arm.revision for arm in arms if arm.fits and arm.measured is None)


def _planned(
    sizes: Collection[ArmSize],
    revisions: Mapping[ArmKind, RevisionStatus],
    *,
    made: Mapping[str, RevisionStatus],
    before: Collection[SizedArm],
    measured: Mapping[str, MeasuredMemory],
) -> tuple[list[SizedArm], tuple[Difference, ...]]:
    """The plans as they are remembered, and what pods were found to take otherwise."""
    known = {arm.revision: arm.measured for arm in before}
    arms, differences = [], []
    for arm in sizes:
        if arm.fit is None:
            continue
        plan, hash_ = arm.fit.plan, revisions[arm.kind].hash
        took = measured.get(hash_) or known.get(hash_)
        # What the pods were started with; an older one may have been planned otherwise.
        memory = (hash_ in made and made[hash_].memory) or memory_plan(plan)
        said = difference(hash_, planned=memory, measured=took) if took and hash_ in measured else None
        differences += [said] if said else []
        arms.append(
            SizedArm(
                kind=arm.kind,
                revision=hash_,
                fits=plan.fits,
                rows=plan.rows,
                tokens=plan.tokens,
                dtype=plan.dtype.value,
                memory=memory_plan(plan),
                measured=took,
            )
        )
    return arms, tuple(differences)


def _status(memory: Memory, known: Mapping[str, Known], arms: list[SizedArm]) -> Sizing:
    sources: Iterator[InspectedSource] = (found.inspected for found in known.values())
    return Sizing(gpu_memory_bytes=memory.gpu_memory_bytes, nodes=memory.nodes, sources=list(sources), arms=arms)


def _next_job(known: Collection[Known], *, now: datetime) -> float | None:
    """Seconds until the next Job is due, or until a resource that waits for nothing would be looked at anyway."""
    due = [found.inspected.retry_at for found in known if found.inspected.retry_at is not None]
    if not due:
        return None
    return min(max(0.0, (min(due) - now).total_seconds()), _LONGEST_LOOK_SECONDS)
