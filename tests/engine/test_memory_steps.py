"""The steps that are tried before a worker is ready read what the plan counts."""

from collections.abc import Sequence

import pytest
from diffusion_worker.engine.memory_steps import Stage, largest_steps
from diffusion_worker.engine.row import Row
from diffusion_worker.engine.slots import prefill_chunks
from diffusion_worker.sizing import Dtype, Workload
from diffusion_worker.sizing.costs import MASK_PASS_TOKENS, Layers
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.engine.test_memory_admission import a_row

ROOM, CHUNK = 2048, 512


def load(*, rows: int, tokens: int, canvas: int) -> Workload:
    return Workload(rows=rows, tokens=tokens, canvas=canvas, guidance=False, dtype=Dtype.FLOAT32, gpus=1)


def read(stages: Sequence[Stage], *, canvas: int, padded: bool = False) -> list[list[int]]:
    """Tokens that each row reads in each step."""
    rows: list[Row] = []
    found = []
    for stage in stages:
        for left in stage.left:
            row = a_row(stage.prompt, stage.answer)
            row.arrived, row.slot, row.pending = -len(rows), len(rows), [3] * left
            rows.append(row)
        found.append([0] * len(rows))
        for row, chunk in prefill_chunks(rows, step_tokens=canvas, padded=padded):
            found[-1][rows.index(row)] = len(chunk)
            row.count_cached(len(chunk))
    return found


def test_chunks_alone_beside_canvases_that_are_committed_and_as_many_as_canvases() -> None:
    canvases, alone, begun, beside, as_many = (
        read(stages, canvas=64) for stages in largest_steps(load(rows=24, tokens=768, canvas=64), Layers.PACKED)
    )
    assert canvases == [[64] * 24]
    assert alone == [[0] * 20 + [CHUNK] * 4]
    assert begun == [[0] * 16 + [ROOM - 3 * CHUNK - 4 * 65] + [CHUNK] * 3 + [65] * 4]
    assert beside == [[CHUNK] + [64] * 23]
    assert as_many == [[64] * 22, [0] * 22 + [CHUNK] * 2]  # 22 canvases are 1,408 tokens


def test_padded_rows_read_a_full_rectangle_and_then_one_of_them_does_not() -> None:
    def steps(rows: int) -> list[list[list[int]]]:
        workload = load(rows=rows, tokens=768, canvas=1)
        return [read(stages, canvas=1, padded=True) for stages in largest_steps(workload, Layers.PADDED)]

    assert steps(3) == [[[CHUNK] * 3, [0] * 3], [[1, CHUNK // 2, CHUNK // 2]]]
    assert steps(8) == [[[ROOM // 8] * 8, [0] * 8], [[0] + [ROOM // 7] * 7]]


@pytest.mark.parametrize("layers", Layers)
@settings(deadline=None)  # by the clock others have the core
@given(rows=st.integers(1, 64), tokens=st.integers(2, 9000), canvas=st.integers(1, 256))
def test_no_row_is_longer_than_the_longest_or_reads_more_than_its_prompt(
    layers: Layers, rows: int, tokens: int, canvas: int
) -> None:
    for stages in largest_steps(load(rows=rows, tokens=tokens, canvas=canvas), layers):
        assert sum(len(stage.left) for stage in stages) <= rows
        for stage in stages:
            assert stage.prompt + stage.answer <= tokens
            assert all(0 < left <= stage.prompt for left in stage.left)


def test_a_block_of_one_token_leaves_all_others_to_the_cache() -> None:
    """What a mask model keeps is most then."""
    first, *_ = largest_steps(load(rows=3, tokens=192, canvas=32), Layers.WHOLE)
    assert read(first, canvas=192) == [[191] * 3]
    assert first[0].answer == 1


def test_shorter_sequences_fill_a_pass_of_a_mask_model_that_the_longest_would_not() -> None:
    lengths = {
        stages[0].prompt + stages[0].answer
        for stages in largest_steps(load(rows=3, tokens=3000, canvas=32), Layers.WHOLE)
        if stages[0].answer > 1
    }
    assert lengths == {3000, MASK_PASS_TOKENS // 3}
