"""Weights move to one piece of memory, and stay the same."""

from dataclasses import dataclass

import torch
from diffusion_worker.models.memory import in_one_piece

LARGE_PAGE = 2 << 20


@dataclass(frozen=True)
class Part:
    weight: torch.Tensor
    bias: torch.Tensor | None


@dataclass(frozen=True)
class Whole:
    first: Part
    second: Part
    heads: int


def test_values_types_and_shapes_stay() -> None:
    broadcast = torch.randn(3, 1).expand(3, 5)
    whole = Whole(Part(torch.randn(7, 3), torch.tensor(2.0)), Part(broadcast.to(torch.bfloat16), None), heads=4)
    moved = in_one_piece(whole)
    assert (moved.heads, moved.second.bias) == (4, None)
    assert moved.first.bias is not None
    assert whole.first.bias is not None
    for before, after in (
        (whole.first.weight, moved.first.weight),
        (whole.first.bias, moved.first.bias),
        (whole.second.weight, moved.second.weight),
    ):
        assert (after.dtype, after.shape) == (before.dtype, before.shape)
        assert after.is_contiguous()
        assert torch.equal(after, before)
        assert after.data_ptr() != before.data_ptr()


def test_all_lie_behind_one_another_from_the_start_of_a_large_page() -> None:
    moved = in_one_piece(Whole(Part(torch.randn(7, 3), torch.randn(3)), Part(torch.randn(20), None), heads=1))
    assert moved.first.bias is not None
    starts = [each.data_ptr() for each in (moved.first.weight, moved.first.bias, moved.second.weight)]
    assert starts[0] % LARGE_PAGE == 0
    assert [start - starts[0] for start in starts] == [0, 128, 192]


def test_the_memory_outlives_what_it_was_made_from() -> None:
    weight = torch.arange(1000.0)
    moved = in_one_piece(Part(weight.clone(), None)).weight
    assert torch.equal(moved, weight)
