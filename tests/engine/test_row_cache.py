"""Each diffusion row holds what it can still see, and gives everything back."""

import pytest
import torch
from diffusion_worker.models.row_cache import CacheBytes, LayerShape, Reach, RowCache
from hypothesis import given
from hypothesis import strategies as st

CANVAS = 16
PAST = 23
SLIDING = LayerShape(heads=2, width=4, is_sliding=True, reach=Reach(past=PAST))
FULL = LayerShape(heads=1, width=8, is_sliding=False, reach=Reach(past=None))
LIMITED = LayerShape(heads=1, width=8, is_sliding=False, reach=Reach(past=20, sink=5))
BYTES_PER_TOKEN = {"sliding": 2 * 2 * 4 * 4, "full": 2 * 1 * 8 * 4}


def cache_of(*layers: LayerShape, max_rows: int = 3) -> RowCache:
    """A cache on the CPU."""
    return RowCache(
        max_rows=max_rows, layers=layers, dtype=torch.float32, device=torch.device("cpu"), canvas_length=CANVAS
    )


def append(cache: RowCache, slot: int, length: int, new: int) -> None:
    """Write `new` tokens whose keys and values are their positions."""
    for layer in cache.reserve(slot, length, new).layers:
        at = length - layer.dropped
        positions = torch.arange(length, length + new, dtype=torch.float32)
        layer.tokens[:, :, at : at + new] = positions[:, None]


def positions_held(cache: RowCache, slot: int, length: int) -> list[list[int]]:
    """Which tokens each layer of a row holds, from what is written there."""
    return [
        layer.tokens[0, 0, : length - layer.dropped, 0].to(torch.int64).tolist()
        for layer in cache.reserve(slot, length, CANVAS).layers
    ]


@given(st.lists(st.integers(1, 60), min_size=1, max_size=8))
def test_a_row_holds_exactly_what_its_layers_see(chunks: list[int]) -> None:
    cache = cache_of(SLIDING, FULL, LIMITED)
    slot = cache.take_slot()
    length = 0
    for chunk in chunks:
        append(cache, slot, length, chunk)
        length += chunk
        append(cache, slot, length, CANVAS)  # a canvas, which the next chunk overwrites
    sliding, full, limited = positions_held(cache, slot, length)
    everything = list(range(length))
    assert sliding == everything[-PAST:]
    assert full == everything
    assert limited == everything[:5] + everything[5:][-20:]


def test_sliding_layers_stop_growing_and_full_ones_grow_by_what_they_hold() -> None:
    cache = cache_of(SLIDING, FULL)
    slot = cache.take_slot()
    length, sliding, full = 0, [], []
    for _ in range(40):
        append(cache, slot, length, CANVAS)
        length += CANVAS
        sliding.append(cache.nbytes.sliding)
        full.append(cache.nbytes.full)
    assert max(sliding) == sliding[-1] <= (PAST + CANVAS + 15) * BYTES_PER_TOKEN["sliding"]
    assert full[-1] <= (length + 63) * BYTES_PER_TOKEN["full"]


def test_a_window_and_a_sink_bound_the_bytes_of_full_layers() -> None:
    dense, limited = cache_of(FULL), cache_of(LIMITED)
    for cache in (dense, limited):
        slot = cache.take_slot()
        for block in range(40):
            append(cache, slot, block * CANVAS, CANVAS)
    assert dense.nbytes.full >= 640 * BYTES_PER_TOKEN["full"]
    assert limited.nbytes.full <= (5 + 20 + CANVAS + 15) * BYTES_PER_TOKEN["full"]


def test_a_long_prompts_room_is_given_back_by_sliding_layers() -> None:
    cache = cache_of(SLIDING)
    slot = cache.take_slot()
    append(cache, slot, 0, 500)
    at_prefill = cache.nbytes.sliding
    append(cache, slot, 500, CANVAS)
    assert at_prefill >= 500 * BYTES_PER_TOKEN["sliding"]
    assert cache.nbytes.sliding <= (PAST + CANVAS + 15) * BYTES_PER_TOKEN["sliding"]
    assert cache.peak_nbytes.sliding == at_prefill


def test_rows_that_end_give_all_their_memory_back_and_the_others_keep_theirs() -> None:
    cache = cache_of(SLIDING, FULL)
    slots = [cache.take_slot() for _ in range(3)]
    for slot, length in zip(slots, (30, 40, 50), strict=True):
        append(cache, slot, 0, length)
    assert cache.free_slot(0) == 2  # the last row has its number now
    assert positions_held(cache, 0, 50) == [list(range(50 - PAST, 50)), list(range(50))]
    assert positions_held(cache, 1, 40) == [list(range(40 - PAST, 40)), list(range(40))]
    assert cache.free_slot(1) is None
    assert cache.free_slot(0) is None
    assert cache.rows == 0
    assert cache.nbytes == CacheBytes(full=0, sliding=0)


def test_a_pass_that_failed_can_be_tried_again() -> None:
    cache = cache_of(SLIDING, LIMITED)
    slot = cache.take_slot()
    append(cache, slot, 0, 60)
    for layer in cache.reserve(slot, 60, CANVAS).layers:
        layer.tokens[:, :, 60 - layer.dropped :] = -1  # the pass wrote something, then raised
    append(cache, slot, 60, CANVAS)
    everything = list(range(76))
    assert positions_held(cache, slot, 76) == [everything[-PAST:], everything[:5] + everything[-20:]]


def test_there_is_no_slot_beyond_the_last() -> None:
    cache = cache_of(FULL, max_rows=1)
    cache.take_slot()
    with pytest.raises(RuntimeError, match="all 1 slots"):
        cache.take_slot()
