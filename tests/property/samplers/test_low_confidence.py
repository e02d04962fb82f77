"""Low-confidence remasking fills masks as fast as the time grid says, the most confident first, and none is left."""

import itertools
import math

import pytest
import torch
from diffusion_worker.config import Schedule
from diffusion_worker.samplers.low_confidence import confidence, unmask
from diffusion_worker.samplers.quota import quota
from diffusion_worker.samplers.schedules import time_grid
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import array_shapes, arrays

schedules = st.sampled_from(Schedule)
levels = st.sampled_from([0.0, 0.125, 0.125, 0.5, 0.875, 0.9375, 1.0])  # few, so that ties happen
confidences = arrays("float32", array_shapes(min_dims=2, max_dims=2, max_side=10), elements=levels).map(
    torch.from_numpy
)


def step(
    scores: torch.Tensor, masked: torch.Tensor, *, wanted: int = 0, threshold: float = 1.0, length: int | None = None
) -> torch.Tensor:
    """One step with the same quota, threshold and length for all rows."""
    rows, width = scores.shape
    return unmask(
        scores,
        masked,
        length=torch.full((rows,), width if length is None else length),
        quota=torch.full((rows,), wanted),
        accept_threshold=torch.full((rows,), threshold),
    )


def some_masks(data: st.DataObject, scores: torch.Tensor) -> torch.Tensor:
    rows, width = scores.shape
    drawn = data.draw(st.lists(st.booleans(), min_size=rows * width, max_size=rows * width))
    return torch.tensor(drawn).view(rows, width)


@given(confidences, schedules, st.integers(1, 12), st.sampled_from([0.0625, 0.5, 0.875, 1.0]), st.data())
def test_a_block_is_filled_step_by_step_and_never_masked_again(
    scores: torch.Tensor, schedule: Schedule, steps: int, threshold: float, data: st.DataObject
) -> None:
    rows, width = scores.shape
    masked = torch.ones(rows, width, dtype=torch.bool)
    for t_next in time_grid(schedule, steps)[1:]:
        wanted = int(quota(torch.tensor([t_next]), torch.tensor([width])))
        taken = step(scores, masked, wanted=wanted, threshold=threshold)
        assert not (taken & ~masked).any()
        filled = width - (masked & ~taken).sum(dim=1)
        assert (filled >= wanted).all()
        if threshold == 1.0:
            before = width - masked.sum(dim=1)
            assert (filled == (before + masked.any(dim=1)).clamp(min=wanted)).all()
        masked = masked & ~taken
        scores = scores[:, torch.randperm(width, generator=torch.Generator().manual_seed(data.draw(st.integers(0, 9))))]
    assert not masked.any()


@given(confidences, st.sampled_from([0.0625, 0.5, 0.875, 1.0]), st.data())
def test_a_step_is_what_its_definition_says(scores: torch.Tensor, threshold: float, data: st.DataObject) -> None:
    """By hand: sort the masks of a row, take what is missing from the quota, and all above the threshold."""
    masked = some_masks(data, scores)
    width = scores.shape[1]
    wanted = data.draw(st.integers(0, width))
    taken = step(scores, masked, wanted=wanted, threshold=threshold)
    for row, open_, of_row in zip(scores.tolist(), masked.tolist(), taken.tolist(), strict=True):
        candidates = [at for at in range(width) if open_[at]]
        missing = max(1, wanted - (width - len(candidates)))
        best = sorted(candidates, key=lambda at: (-row[at], at))[:missing]
        likely = [at for at in candidates if row[at] > threshold]
        assert [at for at in range(width) if of_row[at]] == sorted({*best, *likely})


@given(confidences)
def test_dynamic_with_one_position_per_step_is_fast_dllms(scores: torch.Tensor) -> None:
    """With as many steps as positions the quota asks for no more than the threshold gives, and one at least."""
    rows, width = scores.shape
    masked = torch.ones(rows, width, dtype=torch.bool)
    taken = step(scores, masked, wanted=1, threshold=0.875)
    likely = scores > 0.875
    assert torch.equal(taken[likely], torch.ones_like(taken[likely]))
    assert (taken.sum(dim=1) == likely.sum(dim=1).clamp(min=1)).all()


@given(confidences, st.data())
def test_what_is_behind_the_end_of_a_short_block_does_not_count(scores: torch.Tensor, data: st.DataObject) -> None:
    rows, width = scores.shape
    length = data.draw(st.integers(1, width))
    wanted = data.draw(st.integers(1, length))
    masked = (torch.arange(width) < length).expand(rows, width)
    padded = step(scores, masked, wanted=wanted, length=length)
    alone = step(scores[:, :length], masked[:, :length], wanted=wanted)
    assert torch.equal(padded[:, :length], alone)
    assert not padded[:, length:].any()


@pytest.mark.parametrize("vocab_size", [2, 5])
def test_confidence_is_the_probability_of_the_token(vocab_size: int) -> None:
    logits = torch.randn(3, 4, vocab_size, generator=torch.Generator().manual_seed(1))
    for token in range(vocab_size):
        x_0 = torch.full((3, 4), token)
        expected = logits.softmax(-1)[..., token]
        assert torch.allclose(confidence(logits, x_0), expected, atol=1e-6)


def test_what_can_not_be_has_no_confidence_and_spoils_nothing() -> None:
    logits = torch.tensor([[[0.0, -torch.inf, 0.0]]])
    assert confidence(logits, torch.tensor([[1]])).item() == 0
    assert confidence(logits, torch.tensor([[2]])).item() == pytest.approx(0.5)


@pytest.mark.parametrize("steps", [1, 2, 3])
def test_the_final_text_follows_the_process_by_enumeration(steps: int) -> None:
    """All draws of a model on a vocabulary of 2 and 3 positions: static decoding reaches every text, with the
    probabilities that the chain rule gives, and they sum to one."""
    grid = time_grid(Schedule.LINEAR, steps)
    total = sum(_texts(grid, 0, (None, None, None)).values())
    assert total == pytest.approx(1.0)
    assert len(_texts(grid, 0, (None, None, None))) == 2**3


def _texts(grid: tuple[float, ...], index: int, canvas: tuple[int | None, ...]) -> dict[tuple[int | None, ...], float]:
    """Probability of each text when every mask is drawn from a model whose predictions depend on what is there."""
    masks = [at for at, token in enumerate(canvas) if token is None]
    if not masks:
        return {canvas: 1.0}
    ones = sum(token or 0 for token in canvas)
    p_one = [0.2 + 0.1 * at + 0.15 * ones for at in range(3)]
    result: dict[tuple[int | None, ...], float] = {}
    for draw in itertools.product((0, 1), repeat=len(masks)):
        probs = {at: p_one[at] if token else 1 - p_one[at] for at, token in zip(masks, draw, strict=True)}
        scores = torch.tensor([[probs.get(at, 0.0) for at in range(3)]])
        masked = torch.tensor([[token is None for token in canvas]])
        wanted = int(quota(torch.tensor([grid[index + 1]]), torch.tensor([3])))
        taken = step(scores, masked, wanted=wanted)[0].tolist()
        drawn = dict(zip(masks, draw, strict=True))
        after = tuple(drawn[at] if taken[at] else canvas[at] for at in range(3))
        for text, probability in _texts(grid, index + 1, after).items():
            result[text] = result.get(text, 0.0) + math.prod(probs.values()) * probability
    return result
