"""Block refinement accepts at least its quota in every step, the most likely first, and lets nothing go again."""

import torch
from diffusion_worker.samplers.block_refinement import accept
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import array_shapes, arrays

confidences = arrays(
    "float32", array_shapes(min_dims=2, max_dims=2, max_side=12), elements=st.floats(0, 1, width=32)
).map(torch.from_numpy)
thresholds = st.floats(0.01, 1)


def step(confidence: torch.Tensor, accepted: torch.Tensor, wanted: int, threshold: float) -> torch.Tensor:
    """One step with the same quota and threshold for all rows."""
    rows = len(confidence)
    return accept(
        confidence,
        accepted,
        quota=torch.full((rows,), wanted),
        accept_threshold=torch.full((rows,), threshold, dtype=torch.float32),
    )


@given(confidences, thresholds, st.data())
def test_a_step_fills_its_quota_and_adds_only_what_is_above_the_threshold(
    confidence: torch.Tensor, threshold: float, data: st.DataObject
) -> None:
    wanted = data.draw(st.integers(0, confidence.shape[1]))
    before = torch.zeros_like(confidence, dtype=torch.bool)
    after = step(confidence, before, wanted, threshold)
    assert (after.sum(dim=1) >= wanted).all()
    likely = confidence > torch.tensor(threshold)
    assert (after >= likely).all()
    assert ((after & ~likely).sum(dim=1) <= wanted).all()


@given(confidences, thresholds, st.data())
def test_no_open_position_is_more_likely_than_a_new_one(
    confidence: torch.Tensor, threshold: float, data: st.DataObject
) -> None:
    wanted = data.draw(st.integers(0, confidence.shape[1]))
    before = confidence > 0.8
    after = step(confidence, before, wanted, threshold)
    for row, old, now in zip(confidence, before, after, strict=True):
        new = now & ~old
        if new.any() and not now.all():
            assert row[new].min() >= row[~now].max()


@given(confidences, thresholds, st.data())
def test_what_was_accepted_stays_and_counts_towards_the_quota(
    confidence: torch.Tensor, threshold: float, data: st.DataObject
) -> None:
    rows, length = confidence.shape
    before = torch.tensor(data.draw(st.lists(st.booleans(), min_size=rows * length, max_size=rows * length)))
    before = before.view(rows, length)
    after = step(confidence, before, int(before.sum(dim=1).max()), 1.0)
    assert (after >= before).all()
    assert (after.sum(dim=1) == before.sum(dim=1).max()).all()


def test_a_threshold_of_one_is_never_passed() -> None:
    certain = torch.ones(1, 4)
    assert step(certain, torch.zeros(1, 4, dtype=torch.bool), 1, 1.0).sum() == 1
