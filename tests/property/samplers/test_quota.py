"""Quotas go from nothing to everything, as the grid does."""

import itertools
import math

import torch
from diffusion_worker.config import Schedule
from diffusion_worker.samplers.quota import quota, rank
from diffusion_worker.samplers.schedules import time_grid
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import array_shapes, arrays

levels = st.sampled_from([0.0, 0.25, 0.5, 1.0])  # few, so that ties happen
scores_of_rows = arrays("float32", array_shapes(min_dims=2, max_dims=2, max_side=10), elements=levels)


@given(st.sampled_from(Schedule), st.integers(1, 1024), st.integers(1, 300))
def test_quotas_rise_to_the_whole_length(schedule: Schedule, length: int, steps: int) -> None:
    grid = torch.tensor(time_grid(schedule, steps)[1:])
    quotas = quota(grid, length).tolist()
    assert quotas == sorted(quotas)
    assert quotas[-1] == length
    assert quotas[0] >= 1
    assert quota(grid, torch.full((steps,), length)).tolist() == quotas


@given(st.integers(1, 1024), st.integers(1, 64))
def test_on_the_linear_grid_every_step_fills_an_equal_share(length: int, steps: int) -> None:
    quotas = quota(torch.tensor(time_grid(Schedule.LINEAR, steps)[1:]), length).tolist()
    assert quotas == [math.ceil((i + 1) * length / steps) for i in range(steps)]
    shares = {after - before for before, after in itertools.pairwise([0, *quotas])}
    assert shares <= {length // steps, -(-length // steps)}


@given(scores_of_rows.map(torch.from_numpy))
def test_ranks_sort_each_row_and_keep_the_order_of_equal_scores(scores: torch.Tensor) -> None:
    for row, ranks in zip(scores.tolist(), rank(scores).tolist(), strict=True):
        by_hand = sorted(range(len(row)), key=lambda at: (-row[at], at))
        assert [ranks[at] for at in by_hand] == list(range(len(row)))
