"""Random numbers are a function of seed, canvas, step and stream, and of nothing else."""

from itertools import product

import torch
from diffusion_worker.samplers.randomness import Stream, another, integers, row_key, uniforms
from hypothesis import given
from hypothesis import strategies as st

keys = st.integers(-(2**63), 2**63 - 1)


@given(st.lists(keys, min_size=1, max_size=6), st.integers(1, 20))
def test_a_row_gets_the_same_numbers_in_any_company(row_keys: list[int], count: int) -> None:
    together = uniforms(torch.tensor(row_keys), count)
    for key, row in zip(row_keys, together, strict=True):
        assert torch.equal(row, uniforms(torch.tensor([key]), count)[0])


@given(keys, st.integers(1, 20), st.integers(0, 20))
def test_more_numbers_begin_with_the_same_ones(key: int, count: int, more: int) -> None:
    assert torch.equal(uniforms(torch.tensor([key]), count + more)[:, :count], uniforms(torch.tensor([key]), count))


@given(keys)
def test_uniforms_are_at_least_0_and_below_1(key: int) -> None:
    numbers = uniforms(torch.tensor([key]), 100)
    assert (numbers >= 0).all()
    assert (numbers < 1).all()


@given(keys, st.integers(1, 2**20))
def test_integers_are_in_range(key: int, high: int) -> None:
    numbers = integers(torch.tensor([key]), 100, high=high)
    assert (numbers >= 0).all()
    assert (numbers < high).all()


@given(st.integers(0, 2**63 - 1), st.integers(0, 1000), st.integers(0, 1000))
def test_keys_fit_a_tensor_and_repeat(seed: int, canvas: int, step: int) -> None:
    key = row_key(seed=seed, canvas=canvas, step=step, stream=Stream.NOISE)
    assert torch.tensor([key]).item() == row_key(seed=seed, canvas=canvas, step=step, stream=Stream.NOISE)


def test_every_part_of_the_key_counts() -> None:
    parts = product((0, 1, 2**62), range(5), range(5), Stream)
    drawn = {row_key(seed=s, canvas=c, step=n, stream=stream) for s, c, n, stream in parts}
    assert len(drawn) == 3 * 5 * 5 * len(Stream)


def test_numbers_are_spread_evenly_and_uncorrelated() -> None:
    seeds = torch.tensor([row_key(seed=seed, canvas=0, step=0, stream=Stream.SAMPLE) for seed in range(200)])
    numbers = uniforms(seeds, 200)
    # Within 5 standard errors of what independent uniform numbers give; the draw is fixed, so this cannot flicker.
    assert abs(numbers.mean() - 0.5) < 5 * (1 / 12 / numbers.numel()) ** 0.5
    assert abs(numbers.var() - 1 / 12) < 5 * (1 / 180 / numbers.numel()) ** 0.5
    for shifted in (numbers.roll(1, 0), numbers.roll(1, 1)):
        assert abs(((numbers - 0.5) * (shifted - 0.5)).mean()) < 5 / 12 / numbers.numel() ** 0.5


def test_another_number_is_as_uniform_and_does_not_show_the_first() -> None:
    numbers = uniforms(torch.tensor([3]), 40000)[0]
    low = numbers[numbers < 0.1]  # say, those that were rejected
    for again in (another(low), another(another(low))):
        assert (again >= 0).all()
        assert (again < 1).all()
        assert abs(again.mean() - 0.5) < 5 * (1 / 12 / len(low)) ** 0.5
        assert abs(((again - 0.5) * (low / 0.1 - 0.5)).mean()) < 5 / 12 / len(low) ** 0.5
