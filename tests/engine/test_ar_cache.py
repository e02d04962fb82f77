"""The autoregressive cache grows with its rows and gives its memory back."""

import torch
from diffusion_worker.models.ar import ARModel
from diffusion_worker.models.cache import KVCache


def fill(model: ARModel, cache: KVCache, lengths: list[int]) -> list[int]:
    """Take a slot for each length and write so many tokens."""
    slots = [cache.take_slot() for _ in lengths]
    model.forward(cache, slots, [0] * len(slots), [list(range(1, length + 1)) for length in lengths])
    return slots


def test_it_holds_no_more_slots_than_twice_its_rows_and_nothing_when_they_have_ended(llama_model: ARModel) -> None:
    wide, narrow = KVCache(max_rows=64, max_length=256), KVCache(max_rows=1, max_length=256)
    fill(llama_model, wide, [5])
    fill(llama_model, narrow, [5])
    one_row = wide.nbytes
    assert one_row == narrow.nbytes > 0
    fill(llama_model, wide, [9, 3])
    assert wide.nbytes <= 4 * one_row
    for slot in (2, 1, 0):
        wide.free_slot(slot)
    assert wide.nbytes == 0
    assert 3 * one_row <= wide.peak_nbytes <= 4 * one_row


def test_rows_that_come_later_leave_the_others_as_they_are(llama_model: ARModel) -> None:
    cache = KVCache(max_rows=4, max_length=256)
    (first,) = fill(llama_model, cache, [20])
    fill(llama_model, cache, [150, 3])  # more slots, and longer ones
    alone = KVCache(max_rows=1, max_length=256)
    (slot,) = fill(llama_model, alone, [20])
    ours = llama_model.forward(cache, [first], [20], [[7]])
    expected = llama_model.forward(alone, [slot], [20], [[7]])
    assert torch.allclose(ours, expected, atol=1e-4)


def test_a_row_that_ends_before_its_first_pass_costs_the_others_nothing(llama_model: ARModel) -> None:
    cache = KVCache(max_rows=4, max_length=256)
    fill(llama_model, cache, [20])
    assert [cache.take_slot(), cache.take_slot()] == [1, 2]
    assert cache.free_slot(2) is None
    assert cache.free_slot(0) == 1  # the row that has not run takes the slot of the one that ended
    ours = llama_model.forward(cache, [0], [0], [[5, 6, 7]])
    alone = KVCache(max_rows=1, max_length=256)
    expected = llama_model.forward(alone, [alone.take_slot()], [0], [[5, 6, 7]])
    assert torch.allclose(ours, expected, atol=1e-4)
