"""The kernels. Each takes Triton's launch grid first, then what vLLM passes to the kernel of that name; options for the compiler are dropped.

Names that recur: `requests` [B] has for each row of the batch the index of its request in the runner's state; `starts` [B + 1] are the rows' first
places in the flattened batch; `computed` and `prefill` are, for each request, tokens in the cache and tokens that are given. A request of index
below 0 is padding.
"""

import ctypes
from typing import Any

import numpy as np
import numpy.typing as npt

Grid = tuple[int, ...]
Array = npt.NDArray[Any]

_views: dict[tuple[int, int], Array] = {}


def prepare_prefill_inputs(
    grid: Grid,
    input_ids: Any,
    next_tokens: Any,
    _next_stride: int,
    num_lookahead: int,
    requests: Any,
    starts: Any,
    all_tokens: Any,
    _all_stride: int,
    prefill: Any,
    computed: Any,
    **_: Any,
) -> None:
    """Copy the part of each prompt that is due, and note the tokens that follow it."""
    ids, following, index, first, tokens, given, done = _numpy(
        input_ids, next_tokens, requests, starts, all_tokens, prefill, computed
    )
    for row in range(grid[0]):
        request = index[row]
        begin, end = int(done[request]), int(given[request])
        if begin >= end:
            continue
        count = int(first[row + 1] - first[row])
        ids[first[row] : first[row + 1]] = tokens[request, begin : begin + count]
        for ahead in range(num_lookahead):
            place = begin + count + ahead
            following[ahead, request] = tokens[request, place] if place < end else 0


def prepare_positions(
    grid: Grid, positions: Any, lengths: Any, requests: Any, starts: Any, computed: Any, max_requests: int, **_: Any
) -> None:
    """Positions of the batch's tokens and the lengths of its sequences after this pass."""
    place, length, index, first, done = _numpy(positions, lengths, requests, starts, computed)
    rows = grid[0] - 1  # the last program clears what is not used
    length[rows:max_requests] = 0
    for row in range(rows):
        begin, count = int(done[index[row]]), int(first[row + 1] - first[row])
        length[row] = begin + count
        place[first[row] : first[row + 1]] = np.arange(begin, begin + count)


def combine_sampled_and_draft_tokens(
    grid: Grid,
    input_ids: Any,
    requests: Any,
    last_sampled: Any,
    starts: Any,
    lengths: Any,
    prefill: Any,
    drafts: Any,
    _drafts_stride: int,
    logit_starts: Any,
    logit_places: Any,
    NUM_NEW_SAMPLED_TOKENS: int = 1,  # noqa: N803 - vLLM passes it by this name
    **_: Any,
) -> None:
    """Put the tokens of the last step (here: canvases) into the batch, and note where logits are wanted."""
    ids, index, sampled, first, length, given, draft, logit_first, places = _numpy(
        input_ids, requests, last_sampled, starts, lengths, prefill, drafts, logit_starts, logit_places
    )
    for row in range(grid[0]):
        request, end = index[row], int(first[row + 1])
        wanted = slice(int(logit_first[row]), int(logit_first[row + 1]))
        count = wanted.stop - wanted.start
        places[wanted] = np.arange(end - count, end)
        if length[row] <= given[request]:
            continue
        if NUM_NEW_SAMPLED_TOKENS > 0 and length[row] - count >= given[request]:
            ids[end - count] = sampled.reshape(-1)[request]
        drafted = count - NUM_NEW_SAMPLED_TOKENS
        if drafted > 0:
            ids[end - drafted : end] = draft[request, :drafted]


def count_sampled_and_rejected(
    grid: Grid, sampled: Any, rejected: Any, lengths: Any, logit_starts: Any, requests: Any, prefill: Any
) -> None:
    """A row in the middle of its prompt has sampled nothing; the others have rejected what they have not sampled."""
    taken, refused, length, first, index, given = _numpy(sampled, rejected, lengths, logit_starts, requests, prefill)
    for row in range(grid[0]):
        if length[row] < given[index[row]]:
            taken[row] = refused[row] = 0
        else:
            refused[row] = first[row + 1] - first[row] - taken[row]


def update_after_step(
    grid: Grid,
    requests: Any,
    computed: Any,
    last_sampled: Any,
    bins: Any,
    _bins_stride: int,
    sampled_tokens: Any,
    _sampled_stride: int,
    sampled: Any,
    rejected: Any,
    starts: Any,
    all_tokens: Any,
    _all_stride: int,
    total_lengths: Any,
    **_: Any,
) -> None:
    """Append what was sampled to each request; `bins` counts the tokens for penalties, if any request has one."""
    index, done, last, new, taken, refused, tokens, total = _numpy(
        requests, computed, last_sampled, sampled_tokens, sampled, rejected, all_tokens, total_lengths
    )
    first = None if starts is None else starts.numpy()
    for row in range(grid[0]):
        request, count = int(index[row]), int(taken[row])
        if request < 0:
            continue
        if count > 0:
            begin = int(total[request])
            last.reshape(-1)[request] = new[row, count - 1]
            tokens[request, begin : begin + count] = new[row, :count]
            total[request] = begin + count
            if bins is not None:
                np.add.at(bins.numpy()[request], new[row, :count], 1)
        in_batch = 0 if first is None else int(first[row + 1] - first[row])
        done[request] += in_batch - int(refused[row])


def update_computed_tokens(grid: Grid, requests: Any, computed: Any, starts: Any) -> None:
    """Count what this pass has put into the cache."""
    index, done, first = _numpy(requests, computed, starts)
    for row in range(grid[0]):
        done[index[row]] += first[row + 1] - first[row]


def expand_request_indices(grid: Grid, requests: Any, expanded: Any, places: Any, logit_starts: Any, **_: Any) -> None:
    """For each logit the request that it belongs to, and its place among that request's logits."""
    index, request_of, place_of, first = _numpy(requests, expanded, places, logit_starts)
    for row in range(grid[0]):
        begin, end = int(first[row]), int(first[row + 1])
        request_of[begin:end] = index[row]
        place_of[begin:end] = np.arange(end - begin)


def gather_block_tables(
    grid: Grid,
    requests: Any,
    source_addresses: Any,
    target_addresses: Any,
    strides: Any,
    block_counts: Any,
    _counts_stride: int,
    request_count: int,
    **_: Any,
) -> None:
    """Copy the cache blocks of the batch's requests, in the batch's order, for each group of layers."""
    index, source_of, target_of, stride_of, counts = _numpy(
        requests, source_addresses, target_addresses, strides, block_counts
    )
    rows = counts.shape[1]
    for group in range(grid[0]):
        stride = int(stride_of[group])
        source = _at(source_of[group], rows * stride).reshape(rows, stride)
        target = _at(target_of[group], rows * stride).reshape(rows, stride)
        for row in range(grid[1]):
            if row >= request_count:
                target[row] = 0
            else:
                count = int(counts[group, index[row]])
                target[row, :count] = source[index[row], :count]


def compute_slot_mappings(
    grid: Grid,
    max_tokens: int,
    requests: Any,
    starts: Any,
    positions: Any,
    table_addresses: Any,
    table_strides: Any,
    block_sizes: Any,
    enabled: Any,
    _parallel: Any,
    slots: Any,
    _slots_stride: int,
    _rank: int,
    CP_SIZE: int = 1,  # noqa: N803 - vLLM passes them by these names
    PAD_ID: int = -1,  # noqa: N803
    **_: Any,
) -> None:
    """The place in the cache of every token of the batch, for each group of layers."""
    if CP_SIZE != 1:
        raise NotImplementedError("context parallelism needs more than one worker, which a CPU benchmark has not")
    index, first, place, address, stride_of, size_of, is_enabled, slot = _numpy(
        requests, starts, positions, table_addresses, table_strides, block_sizes, enabled, slots
    )
    rows = grid[1] - 1  # the last program pads
    for group in range(grid[0]):
        stride, size = int(stride_of[group]), int(size_of[group])
        slot[group, int(first[rows]) : max_tokens] = PAD_ID
        for row in range(rows):
            tokens = slice(int(first[row]), int(first[row + 1]))
            request = int(index[row])
            if request < 0 or not is_enabled[group]:
                slot[group, tokens] = PAD_ID
                continue
            blocks = _at(int(address[group]) + 4 * request * stride, stride)
            slot[group, tokens] = blocks[place[tokens] // size].astype(np.int64) * size + place[tokens] % size


def apply_write(
    grid: Grid,
    target: Any,
    strides: Any,
    rows: Any,
    columns: Any,
    contents: Any,
    ends: Any,
    groups: Any,
    MULTI_GROUP: bool = False,  # noqa: N803 - vLLM passes it by this name
    **_: Any,
) -> None:
    """Write pieces of a flat buffer to their rows and columns, of one table or of one for each group."""
    row_of, column_of, content, end_of = _numpy(rows, columns, contents, ends)
    begin = 0
    for piece in range(grid[0]):
        end, row, column = int(end_of[piece]), int(row_of[piece]), int(column_of[piece])
        if MULTI_GROUP:
            group = int(groups.numpy()[piece])
            stride = int(strides.numpy()[group])
            line = _at(int(target.numpy()[group]) + 4 * row * stride, stride)
            line[column : column + end - begin] = content[begin:end]
        else:
            place = row * int(strides) + column
            target.view(-1).numpy()[place : place + end - begin] = content[begin:end]
        begin = end


def _numpy(*tensors: Any) -> list[Array]:
    """Views of torch tensors in main memory."""
    return [tensor.numpy() for tensor in tensors]


def _at(address: Any, length: int) -> Array:
    """`length` int32 at a raw address: vLLM hands tables over as pointers, as a kernel needs them."""
    key = int(address), int(length)
    if key not in _views:  # making a view takes longer than using it
        _views[key] = np.ctypeslib.as_array((ctypes.c_int32 * key[1]).from_address(key[0]))
    return _views[key]
