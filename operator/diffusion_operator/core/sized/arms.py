"""What memory says about each arm that spec asks for."""

from collections.abc import Mapping
from dataclasses import dataclass

from diffusion_operator.api import conditions as reasons
from diffusion_operator.api.conditions import Reason
from diffusion_operator.api.models import ArmKind, DiffusionModelSpec, ModelSource
from diffusion_operator.core.sizing import SizingError

from .budget import Memory
from .facts import Known
from .fit import Fit, WrongModelError, fit
from .inspection import source_key

# The worst first: the condition has the reason of the worst arm.
_BY_SEVERITY = (
    reasons.WRONG_MODEL,
    reasons.DOES_NOT_FIT,
    reasons.FACTS_UNAVAILABLE,
    reasons.INSPECTING,
    reasons.NOT_LIMITED,
    reasons.PLANNED,
)
# A revision of such an arm gets no pods.
HOLDS = frozenset(_BY_SEVERITY[:4])


@dataclass(frozen=True, slots=True)
class ArmSize:
    """What was found about one arm. `fit` is None when nothing could be planned."""

    kind: ArmKind
    reason: Reason
    message: str
    fit: Fit | None = None


def arm_sizes(spec: DiffusionModelSpec, known: Mapping[str, Known], memory: Memory) -> tuple[ArmSize, ...]:
    """One for each arm that we serve."""
    arms = {ArmKind.DIFFUSION: spec.model, ArmKind.AR: spec.fallback.model}
    return tuple(
        _size(spec, kind, source, known[source_key(source)], memory)
        for kind, source in arms.items()
        if source is not None
    )


def finding(sizes: tuple[ArmSize, ...]) -> tuple[Reason, str]:
    """Reason and message of the condition: of the worst arm, with what is known of all."""
    worst = min((size.reason for size in sizes), key=_BY_SEVERITY.index)
    return worst, " ".join(f"{size.kind.value}: {size.message}." for size in sizes)


def _size(spec: DiffusionModelSpec, kind: ArmKind, source: ModelSource, known: Known, memory: Memory) -> ArmSize:
    if known.facts is None and known.failure:
        retry = known.inspected.retry_at
        when = f"; the next Job is due at {retry:%H:%M:%S} UTC" if retry else "; another Job reads it now"
        return ArmSize(kind, reasons.FACTS_UNAVAILABLE, f"{known.failure}{when}")
    if known.facts is None:
        waits = f": {known.waiting_for}" if known.waiting_for else ""
        return ArmSize(kind, reasons.INSPECTING, f"a Job reads the headers of {known.inspected.source}{waits}")
    if memory.budget is None:
        return ArmSize(
            kind, reasons.NOT_LIMITED, f"the memory of the GPU is not known ({memory.why}): set resources.gpuMemory"
        )
    try:
        found = fit(known.facts, spec, memory.budget, kind=kind, source=source)
    except WrongModelError as error:
        return ArmSize(kind, reasons.WRONG_MODEL, str(error))
    except SizingError as error:
        return ArmSize(kind, reasons.DOES_NOT_FIT, str(error))
    reason = reasons.PLANNED if found.plan.fits else reasons.DOES_NOT_FIT
    return ArmSize(kind, reason, found.message, found)
