"""What a pod took beside what was planned for it."""

from dataclasses import dataclass

from diffusion_operator.api.models import MeasuredMemory, MemoryPlan
from diffusion_operator.core.sizing.explain import human

# The planner's promise. Above it, people should know before the next model is sized by it.
_TOLERANCE = 0.10


@dataclass(frozen=True, slots=True)
class Difference:
    """What is told of a pod that took another amount than planned. Less is a waste, more is a danger."""

    message: str
    is_more: bool


def difference(revision: str, *, planned: MemoryPlan, measured: MeasuredMemory) -> Difference | None:
    """What to say when the two differ by more than a tenth of the plan, with the parts.

    A reserve is meant to be more than what is taken of it: leaving room there is no difference.
    """
    plan, took, what = planned.total, measured.total, ""
    if took <= plan and measured.reserve is not None:
        plan, took, what = plan - planned.reserve, took - measured.reserve, " without its reserve"
    share = took / plan - 1
    if abs(share) <= _TOLERANCE:
        return None
    pairs = (
        ("weights", planned.weights, measured.weights),
        ("keys and values", planned.kv, measured.kv),
        ("step", planned.step, measured.step),
        ("reserve", planned.reserve, measured.reserve),
    )
    parts = ", ".join(
        f"{name} {human(found)} instead of {human(meant)}" for name, meant, found in pairs if found is not None
    )
    return Difference(
        f"Revision {revision} takes {human(took)}{what}, {abs(share):.0%} {'more' if share > 0 else 'less'} than the "
        f"{human(plan)} that were planned{f': {parts}' if parts else ''}.",
        is_more=share > 0,
    )
