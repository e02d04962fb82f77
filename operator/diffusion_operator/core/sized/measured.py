"""What a pod took beside what was planned for it."""

from diffusion_operator.api.models import MeasuredMemory, MemoryPlan
from diffusion_operator.core.sizing.explain import human

# The planner's promise. Above it, people should know before the next model is sized by it.
_TOLERANCE = 0.10


def difference(revision: str, *, planned: MemoryPlan, measured: MeasuredMemory) -> str | None:
    """A sentence when the two differ by more than a tenth of the plan, with the parts that differ most."""
    share = measured.total / planned.total - 1
    if abs(share) <= _TOLERANCE:
        return None
    pairs = (
        ("weights", planned.weights, measured.weights),
        ("keys and values", planned.kv, measured.kv),
        ("step", planned.step, measured.step),
        ("reserve", planned.reserve, measured.reserve),
    )
    parts = ", ".join(
        f"{name} {human(took)} instead of {human(plan)}" for name, plan, took in pairs if took is not None
    )
    return (
        f"Revision {revision} takes {human(measured.total)}, {abs(share):.0%} {'more' if share > 0 else 'less'} than the "
        f"{human(planned.total)} that were planned{f': {parts}' if parts else ''}."
    )
