"""Time grids fall from exactly 1 to exactly 0, and an adaptive step never goes further than the canvas allows."""

from itertools import pairwise

import pytest
from diffusion_worker.config import Schedule
from diffusion_worker.samplers.schedules import next_index, settled_time, temperature_at, time_grid
from hypothesis import given
from hypothesis import strategies as st

schedules = st.sampled_from(Schedule)
steps = st.integers(1, 1024)


@given(schedules, steps)
def test_a_grid_falls_strictly_from_one_to_zero(schedule: Schedule, steps: int) -> None:
    grid = time_grid(schedule, steps)
    assert len(grid) == steps + 1
    assert (grid[0], grid[-1]) == (1.0, 0.0)
    assert all(earlier > later for earlier, later in pairwise(grid))


@given(steps)
def test_the_cosine_grid_takes_large_steps_early_and_small_ones_late(steps: int) -> None:
    sizes = [earlier - later for earlier, later in pairwise(time_grid(Schedule.COSINE, steps))]
    assert all(later < earlier for earlier, later in pairwise(sizes))


@given(steps)
def test_the_linear_grid_takes_equal_steps(steps: int) -> None:
    sizes = [earlier - later for earlier, later in pairwise(time_grid(Schedule.LINEAR, steps))]
    assert sizes == pytest.approx([1 / steps] * steps)


def test_no_steps_are_no_grid() -> None:
    with pytest.raises(ValueError, match="at least 1 step, not 0"):
        time_grid(Schedule.LINEAR, 0)


@given(schedules, steps, st.floats(0.01, 2), st.floats(0.01, 2))
def test_the_temperature_falls_along_the_grid_between_its_bounds(
    schedule: Schedule, steps: int, one: float, other: float
) -> None:
    low, high = sorted((one, other))
    line = [temperature_at(t, temperature_min=low, temperature_max=high) for t in time_grid(schedule, steps)]
    assert line[0] == pytest.approx(high)
    assert line[-1] == low
    assert all(later <= earlier for earlier, later in pairwise(line))


@given(steps)
def test_the_linear_temperature_is_the_one_of_transformers(steps: int) -> None:
    for step, t in enumerate(time_grid(Schedule.LINEAR, steps)[:-1]):
        assert temperature_at(t, temperature_min=0.4, temperature_max=0.8) == 0.4 + (0.8 - 0.4) * (
            (steps - step) / steps
        )


@given(schedules, steps, st.data())
def test_without_adaptation_every_time_is_visited(schedule: Schedule, steps: int, data: st.DataObject) -> None:
    index = data.draw(st.integers(0, steps - 1))
    assert next_index(time_grid(schedule, steps), index, looks_like=None) == index + 1


@given(schedules, steps, st.floats(0, 1), st.data())
def test_an_adaptive_step_skips_no_time_that_the_canvas_still_needs(
    schedule: Schedule, steps: int, looks_like: float, data: st.DataObject
) -> None:
    grid = time_grid(schedule, steps)
    index = data.draw(st.integers(0, steps - 1))
    following = next_index(grid, index, looks_like=looks_like)
    assert index < following <= steps
    if following > index + 1:
        assert grid[following] >= looks_like
        assert grid[following] >= grid[index] / 2


@given(schedules, steps, st.floats(0, 1), st.floats(0, 1), st.data())
def test_a_more_settled_canvas_never_takes_a_smaller_step(
    schedule: Schedule, steps: int, one: float, other: float, data: st.DataObject
) -> None:
    grid = time_grid(schedule, steps)
    index = data.draw(st.integers(0, steps - 1))
    settled, unsettled = sorted((one, other))
    assert next_index(grid, index, looks_like=settled) >= next_index(grid, index, looks_like=unsettled)


@given(schedules, steps)
def test_a_settled_canvas_needs_only_as_many_steps_as_time_can_be_halved(schedule: Schedule, steps: int) -> None:
    grid = time_grid(schedule, steps)
    index = taken = 0
    while index < steps:
        index = next_index(grid, index, looks_like=0.0)
        taken += 1
    assert taken <= min(steps, 22)  # 2**-20 is below the last step of 1,024 on either grid


@given(st.floats(0, 1), st.floats(0, 20))
def test_a_canvas_looks_settled_only_when_it_neither_changes_nor_doubts(changed: float, mean_entropy: float) -> None:
    time = settled_time(changed=changed, mean_entropy=mean_entropy)
    assert changed <= time <= 1
    assert (time == 0) == (changed == 0 and mean_entropy == 0)
