"""Plan against what a pod took."""

import pytest
from diffusion_operator.api.models import MeasuredMemory, MemoryPlan
from diffusion_operator.core.sized.measured import difference
from diffusion_operator.core.sized.size import unmeasured
from diffusion_operator.core.step import Event

from tests.unit.sized.builders import a_gpu_model, after, decide, inspected

MODEL = inspected(a_gpu_model())
ASSERTED = MODEL.status.sizing
assert ASSERTED is not None
ARM = ASSERTED.arms[0]


def took(share: float) -> dict[str, MeasuredMemory]:
    return {ARM.revision: MeasuredMemory(weights=ARM.memory.weights, total=int(ARM.memory.total * share))}


def events(share: float) -> list[Event]:
    return [event for event in decide(MODEL, measured=took(share)).events if event.reason == "MemoryDiffers"]


@pytest.mark.parametrize("share", [0.91, 1.0, 1.09])
def test_within_a_tenth_nothing_is_said(share: float) -> None:
    assert events(share) == []


@pytest.mark.parametrize(("share", "says"), [(0.8, "20% less"), (1.25, "25% more")])
def test_more_than_a_tenth_is_an_event_with_the_numbers(share: float, says: str) -> None:
    (event,) = events(share)
    assert f"Revision {ARM.revision} takes" in event.message
    assert says in event.message
    assert "weights" in event.message


def test_more_than_planned_is_a_warning_and_less_is_not() -> None:
    """Memory that is not used fails nobody; what is used beyond a plan may be another's."""
    (less,), (more,) = events(0.5), events(1.25)
    assert not less.is_warning
    assert more.is_warning


@pytest.mark.parametrize(("of_step", "is_told"), [(1.0, False), (0.0, True), (20.0, True)])
def test_room_in_the_reserve_is_no_difference_but_other_parts_are(of_step: float, is_told: bool) -> None:
    plan = MemoryPlan(budget_bytes=1000, weights=30, kv=50, step=20, reserve=700)
    step = int(plan.step * of_step)
    measured = MeasuredMemory(weights=30, kv=50, step=step, reserve=400, total=480 + step)
    assert bool(difference("abc", planned=plan, measured=measured)) == is_told


def test_what_was_measured_is_remembered_and_told_once() -> None:
    assert ARM.revision in unmeasured(MODEL)
    model = after(MODEL, measured=took(1.25))
    assert model.status.sizing is not None
    assert model.status.sizing.arms[0].measured == took(1.25)[ARM.revision]
    assert ARM.revision not in unmeasured(model)
    again = decide(model)
    assert again.status == model.status
    assert again.events == ()
