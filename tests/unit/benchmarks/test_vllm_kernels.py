"""NumPy in place of vLLM's kernels: what each does to the books of the runner."""

from typing import Any

import numpy as np
import numpy.typing as npt

from benchmarks.peers.vllm_shim.vllm_cpu_kernels import kernels


class Tensor:
    """As much of a torch tensor as the kernels use."""

    def __init__(self, values: Any, dtype: Any = np.int32) -> None:
        self.values: npt.NDArray[Any] = np.array(values, dtype=dtype)

    def numpy(self) -> npt.NDArray[Any]:
        return self.values

    def view(self, _: int) -> "Tensor":
        flat = Tensor([])
        flat.values = self.values.reshape(-1)
        return flat

    def tolist(self) -> Any:
        return self.values.tolist()

    @property
    def address(self) -> int:
        return int(self.values.ctypes.data)


def test_the_part_of_a_prompt_that_is_due_enters_the_batch() -> None:
    ids, following = Tensor([0] * 4), Tensor([[0, 0, 0]])
    prompts = Tensor([[10, 11, 12, 13, 14], [20, 21, 0, 0, 0], [30, 31, 32, 0, 0]])
    kernels.prepare_prefill_inputs(
        (2,), ids, following, 3, 1, Tensor([0, 2]), Tensor([0, 2, 4]), prompts, 5, Tensor([5, 2, 3]), Tensor([2, 2, 1])
    )
    assert ids.tolist() == [12, 13, 31, 32]
    assert following.tolist() == [[14, 0, 0]]


def test_a_request_whose_prompt_is_done_is_left_alone() -> None:
    ids = Tensor([7, 7])
    kernels.prepare_prefill_inputs(
        (1,), ids, Tensor([[0]]), 1, 1, Tensor([0]), Tensor([0, 2]), Tensor([[1, 2]]), 2, Tensor([2]), Tensor([2])
    )
    assert ids.tolist() == [7, 7]


def test_positions_go_on_after_what_is_computed_and_unused_lengths_are_cleared() -> None:
    positions, lengths = Tensor([0] * 5), Tensor([9, 9, 9, 9])
    kernels.prepare_positions((3,), positions, lengths, Tensor([1, 0]), Tensor([0, 3, 5]), Tensor([100, 10]), 4)
    assert positions.tolist() == [10, 11, 12, 100, 101]
    assert lengths.tolist() == [13, 102, 0, 0]


def test_drafts_enter_the_batch_and_logits_are_wanted_at_its_end() -> None:
    ids, places = Tensor([1, 2, 3, 4, 5, 6]), Tensor([0] * 4)
    kernels.combine_sampled_and_draft_tokens(
        (2,), ids, Tensor([1, 0]), Tensor([50, 60]), Tensor([0, 3, 6]), Tensor([3, 20]), Tensor([5, 9]),
        Tensor([[7, 8], [0, 0]]), 2, Tensor([0, 1, 4]), places,
    )  # fmt: skip
    assert ids.tolist() == [1, 2, 3, 50, 7, 8]  # the first row is in the middle of its prompt
    assert places.tolist() == [2, 3, 4, 5]


def test_whoever_is_in_its_prompt_has_sampled_and_rejected_nothing() -> None:
    sampled, rejected = Tensor([1, 2]), Tensor([5, 5])
    kernels.count_sampled_and_rejected(
        (2,), sampled, rejected, Tensor([3, 20]), Tensor([0, 1, 5]), Tensor([1, 0]), Tensor([9, 5])
    )
    assert sampled.tolist() == [0, 2]
    assert rejected.tolist() == [0, 2]


def test_sampled_tokens_are_appended_and_padding_is_skipped() -> None:
    computed, last, tokens, total = (
        Tensor([10, 20]),
        Tensor([[0], [0]]),
        Tensor([[1, 0, 0, 0], [1, 2, 0, 0]]),
        Tensor([1, 2]),
    )
    bins = Tensor([[0] * 10, [0] * 10])
    kernels.update_after_step(
        (2,), Tensor([1, -1]), computed, last, bins, 10, Tensor([[8, 9], [5, 5]]), 2, Tensor([2, 2]), Tensor([1, 0]),
        Tensor([0, 4, 8]), tokens, 4, total,
    )  # fmt: skip
    assert tokens.tolist() == [[1, 0, 0, 0], [1, 2, 8, 9]]
    assert total.tolist() == [1, 4]
    assert computed.tolist() == [10, 23]
    assert last.tolist() == [[0], [9]]
    assert (bins.values[1].nonzero()[0].tolist(), bins.values[0].sum()) == ([8, 9], 0)


def test_computed_tokens_are_counted() -> None:
    computed = Tensor([1, 2, 3])
    kernels.update_computed_tokens((2,), Tensor([2, 0]), computed, Tensor([0, 5, 6]))
    assert computed.tolist() == [2, 2, 8]


def test_each_logit_knows_its_request_and_its_place() -> None:
    requests, places = Tensor([0] * 3), Tensor([0] * 3)
    kernels.expand_request_indices((2,), Tensor([4, 1]), requests, places, Tensor([0, 2, 3]))
    assert (requests.tolist(), places.tolist()) == ([4, 4, 1], [0, 1, 0])


def test_block_tables_are_gathered_in_the_batchs_order() -> None:
    source, target = Tensor([[1, 2, 0], [3, 4, 5]]), Tensor([[9, 9, 9], [9, 9, 9]])
    addresses = [Tensor([each.address], np.uint64) for each in (source, target)]
    kernels.gather_block_tables((1, 2), Tensor([1]), *addresses, Tensor([3]), Tensor([[2, 3]]), 2, 1)
    assert target.tolist() == [[3, 4, 5], [0, 0, 0]]


def test_slots_are_places_in_the_blocks_and_padding_has_none() -> None:
    table, slots = Tensor([[5, 6], [7, 8]]), Tensor([[0] * 6], np.int64)
    kernels.compute_slot_mappings(
        (1, 3), 6, Tensor([1, -1]), Tensor([0, 3, 4]), Tensor([3, 4, 5, 0], np.int64), Tensor([table.address], np.uint64),
        Tensor([2]), Tensor([4]), Tensor([True], np.bool_), None, slots, 6, 0,
    )  # fmt: skip
    assert slots.tolist() == [[7 * 4 + 3, 8 * 4, 8 * 4 + 1, -1, -1, -1]]


def test_pieces_are_written_to_their_rows_and_columns() -> None:
    table = Tensor([[0] * 4, [0] * 4])
    kernels.apply_write((2,), table, 4, Tensor([1, 0]), Tensor([1, 0]), Tensor([5, 6, 7]), Tensor([2, 3]), None)
    assert table.tolist() == [[7, 0, 0, 0], [0, 5, 6, 0]]


def test_pieces_are_written_to_the_tables_of_their_groups() -> None:
    first, second = Tensor([[0, 0], [0, 0]]), Tensor([[0, 0, 0]])
    kernels.apply_write(
        (2,), Tensor([first.address, second.address], np.uint64), Tensor([2, 3]), Tensor([1, 0]), Tensor([0, 1]),
        Tensor([1, 2, 3]), Tensor([1, 3]), Tensor([0, 1]), MULTI_GROUP=True,
    )  # fmt: skip
    assert (first.tolist(), second.tolist()) == ([[0, 0], [1, 0]], [[0, 2, 3]])
