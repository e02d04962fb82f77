"""Rows are admitted by the bytes that they take, in order, and fewer of them after an allocation has failed."""

from collections.abc import Callable, Sequence
from dataclasses import replace

import pytest
from diffusion_worker.engine.memory_plan import PlannedModel, RowMemory
from diffusion_worker.engine.memory_throttle import Throttle
from diffusion_worker.engine.output import Output
from diffusion_worker.engine.row import Row
from diffusion_worker.inspect.facts import ModelFacts
from diffusion_worker.samplers.settings import Settings
from diffusion_worker.sizing import Arm, Device, Dtype, Workload, engine_costs, footprint
from hypothesis import given
from hypothesis import strategies as st

from tests.unit.sizing.shapes import DIFFUSION_GEMMA, DREAM, LLADA, KnownShape

LONGEST = 2048
TokenRow = Callable[[int, int], Row]


def planned(known: KnownShape = DIFFUSION_GEMMA, arm: Arm = Arm.DIFFUSION) -> PlannedModel:
    facts: ModelFacts = known.facts
    longest = Workload(
        rows=1,
        tokens=LONGEST,
        canvas=1 if arm is Arm.AR else known.canvas,
        guidance=False,
        dtype=Dtype.BFLOAT16,
        gpus=1,
    )
    return PlannedModel(facts, longest, engine_costs(arm, Device.CUDA, facts.family))


def budget_of(model: PlannedModel, rows: int) -> int:
    """What a plan for so many of the longest rows gives to keys, values and steps."""
    made = footprint(model.facts, replace(model.longest, rows=rows), model.costs)
    return made.kv + made.step


def a_row(prompt: int, max_tokens: int, settings: Settings | None = None) -> Row:
    return Row(
        request_id="r",
        prompt_token_ids=[3] * prompt,
        max_tokens=max_tokens,
        temperature=1.0,
        top_p=1.0,
        seed=0,
        output=Output.__new__(Output),  # nothing is written
        emit=lambda event: None,
        settings=settings,
    )


def admitted(memory: RowMemory, rows: Sequence[Row]) -> int:
    running: list[Row] = []
    for row in rows:
        if not memory.fits(running, row, now=0.0):
            break
        running.append(row)
    return len(running)


@pytest.mark.parametrize(
    ("known", "arm"),
    [(DIFFUSION_GEMMA, Arm.DIFFUSION), (LLADA, Arm.DIFFUSION), (DREAM, Arm.DIFFUSION), (LLADA, Arm.AR)],
)
@pytest.mark.parametrize("rows", [1, 4, 12])
def test_as_many_of_the_longest_rows_as_were_planned_run_together(known: KnownShape, arm: Arm, rows: int) -> None:
    model = planned(known, arm)
    memory = RowMemory(max_rows=64, model=model, budget=budget_of(model, rows))
    assert admitted(memory, [a_row(LONGEST - 1, 1)] * 64) == rows
    assert model.rows_within(budget_of(model, rows), at_most=64) == rows


def test_more_short_rows_run_together_than_long_ones() -> None:
    model = planned()
    memory = RowMemory(max_rows=64, model=model, budget=budget_of(model, 12))
    assert admitted(memory, [a_row(200, 56)] * 64) > 14


def test_no_more_rows_than_the_limit_whatever_they_take() -> None:
    model = planned(DREAM)
    memory = RowMemory(max_rows=16, model=model, budget=budget_of(model, 16))
    assert admitted(memory, [a_row(16, 16)] * 64) == 16


def test_a_row_that_is_not_there_alone_is_refused_with_the_numbers() -> None:
    model = planned()
    memory = RowMemory(max_rows=64, model=model, budget=budget_of(model, 1))
    assert memory.never_fits(a_row(LONGEST - 1, 1)) is None
    settings = Settings.__new__(Settings)
    object.__setattr__(settings, "guidance_scale", 1.5)
    refusal = memory.never_fits(a_row(LONGEST - 1, 1, settings))
    assert refusal is not None
    assert f"{budget_of(model, 1):,} for requests" in refusal
    assert "with guidance" in refusal


def test_without_a_plan_only_the_number_of_rows_counts() -> None:
    memory = RowMemory(max_rows=3)
    assert admitted(memory, [a_row(10**6, 1)] * 5) == 3
    assert memory.never_fits(a_row(10**6, 1)) is None


def test_after_a_failure_fewer_rows_run_and_alone_each_still_does() -> None:
    memory = RowMemory(max_rows=8)
    memory.failed(now=0.0)
    assert admitted(memory, [a_row(1, 1)] * 8) == 6
    for _ in range(100):
        memory.failed(now=0.0)
    assert admitted(memory, [a_row(1, 1)] * 8) == 1


@given(
    rows=st.lists(st.tuples(st.integers(1, 1900), st.integers(1, 148)), min_size=1, max_size=24),
    budget_rows=st.integers(1, 12),
    arm=st.sampled_from(Arm),
)
def test_what_runs_together_is_never_over_the_budget(rows: list[tuple[int, int]], budget_rows: int, arm: Arm) -> None:
    model = planned(LLADA, arm)
    budget = budget_of(model, budget_rows)
    memory = RowMemory(max_rows=64, model=model, budget=budget)
    running: list[Row] = []
    for prompt, max_tokens in rows:
        row = a_row(prompt, max_tokens)
        if memory.fits(running, row, now=0.0):
            running.append(row)
            assert model.bytes_of(running) <= budget
    assert len(running) >= min(budget_rows, len(rows))


@given(st.lists(st.floats(0, 1000), max_size=30), st.floats(0, 10**5))
def test_the_share_falls_at_once_and_comes_back_slowly(steps: list[float], quiet: float) -> None:
    throttle, now = Throttle(), 0.0
    for seconds in steps:
        now += seconds
        throttle.recover(now)
        before = throttle.share
        throttle.failed(now)
        assert throttle.share < before or before <= 0.1
        assert throttle.share >= 0.1
    lowest = throttle.share
    throttle.recover(now + 59)
    assert throttle.share == lowest
    throttle.recover(now + quiet)
    assert lowest <= throttle.share <= 1.0
    throttle.recover(now + quiet + 60 * 20)
    assert throttle.share == 1.0


def test_a_long_row_is_not_overtaken() -> None:
    """It waits at the head; those behind it, which would fit, wait too."""
    model = planned()
    memory = RowMemory(max_rows=64, model=model, budget=budget_of(model, 2))
    running = [a_row(LONGEST - 1, 1), a_row(1000, 1)]
    assert admitted(memory, [*running, a_row(LONGEST - 1, 1), a_row(1, 1)]) == 2
