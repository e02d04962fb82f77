"""What holds for the entropy-bound sampler whatever the model predicts."""

import torch
from diffusion_worker.samplers.entropy_bound import accept as accept_rows
from diffusion_worker.samplers.entropy_bound import renoise
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import array_shapes, arrays

entropies = arrays(
    "float32", array_shapes(min_dims=2, max_dims=2, max_side=12), elements=st.floats(0, 8, width=32)
).map(torch.from_numpy)
bounds = st.floats(0.001, 20)


def accept(entropy: torch.Tensor, bound: float) -> torch.Tensor:
    """The sampler with the same bound for all rows."""
    return accept_rows(entropy, torch.full((len(entropy),), bound))


@given(entropies, bounds)
def test_accepted_positions_stay_within_the_bound(entropy: torch.Tensor, bound: float) -> None:
    for row, accepted in zip(entropy, accept(entropy, bound), strict=True):
        taken = row[accepted]
        assert taken.sum() - taken.max() <= bound + 1e-4


@given(entropies, bounds)
def test_the_most_certain_position_is_always_accepted(entropy: torch.Tensor, bound: float) -> None:
    assert accept(entropy, bound).gather(1, entropy.argmin(dim=1, keepdim=True)).any(dim=1).all()


@given(entropies, bounds)
def test_no_rejected_position_is_more_certain_than_an_accepted_one(entropy: torch.Tensor, bound: float) -> None:
    for row, accepted in zip(entropy, accept(entropy, bound), strict=True):
        if not accepted.all():
            assert row[accepted].max() <= row[~accepted].min()


@given(entropies, bounds)
def test_one_more_position_would_break_the_bound(entropy: torch.Tensor, bound: float) -> None:
    for row, accepted in zip(entropy, accept(entropy, bound), strict=True):
        if not accepted.all():
            # Σ H - max H of the accepted ones and the next is just the sum of the accepted ones.
            assert row[accepted].sum() > bound - 1e-4


@given(entropies, bounds, bounds)
def test_a_larger_bound_accepts_no_fewer(entropy: torch.Tensor, bound: float, other: float) -> None:
    smaller, larger = sorted((bound, other))
    assert (accept(entropy, larger) >= accept(entropy, smaller)).all()


@given(entropies, bounds)
def test_rows_are_accepted_independently(entropy: torch.Tensor, bound: float) -> None:
    together = accept(entropy, bound)
    alone = torch.cat([accept(row[None], bound) for row in entropy])
    assert torch.equal(together, alone)


def test_each_row_has_its_own_bound() -> None:
    entropy = torch.tensor([[0.5, 0.1, 0.3]]).repeat(2, 1)
    assert accept_rows(entropy, torch.tensor([0.2, 0.5])).tolist() == [[False, True, True], [True, True, True]]


def test_certain_positions_are_all_accepted_at_once() -> None:
    assert accept(torch.zeros(1, 5), 0.1).all()


def test_renoising_keeps_accepted_tokens_and_replaces_the_others() -> None:
    accepted = torch.tensor([[True, False, True]])
    assert renoise(torch.tensor([[1, 2, 3]]), accepted, torch.tensor([[7, 8, 9]])).tolist() == [[1, 8, 3]]
