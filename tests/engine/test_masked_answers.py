"""What a mask model is shown of an answer, and when its block is done."""

import pytest
from diffusion_worker.engine.admission import admit_request
from diffusion_worker.engine.masked_answer import MaskedAnswer, MaskedBlock
from diffusion_worker.models.mask_diffusion import MaskModel
from diffusion_worker.sizing.costs import MASK_HORIZON
from hypothesis import given
from hypothesis import strategies as st

from tests.engine.answers import request
from tests.engine.mask_checkpoints import MASK
from tests.engine.runners import mask_runner

EOS = 9


def answer_to(
    model: MaskModel, *, max_tokens: int, block_length: int, prompt: tuple[int, ...] = (5, 6)
) -> MaskedAnswer:
    """An answer that has not begun."""
    row = admit_request(request(list(prompt), max_tokens=8), runner=mask_runner(model), emit=lambda event: None)
    row.max_tokens = max_tokens
    return MaskedAnswer(row, MASK, block_length)


@pytest.mark.parametrize(
    ("max_tokens", "block_length", "block", "visible"),
    [
        (10, 16, 10, 10),
        (40, 16, 16, 40),
        (MASK_HORIZON + 100, 16, 16, MASK_HORIZON),
        (10**6, MASK_HORIZON + 88, MASK_HORIZON + 88, MASK_HORIZON + 88),
        (700, MASK_HORIZON + 88, MASK_HORIZON + 88, MASK_HORIZON + 88),
    ],
)
def test_masks_are_shown_to_the_end_of_the_answer_or_to_the_horizon(
    llada_model: MaskModel, max_tokens: int, block_length: int, block: int, visible: int
) -> None:
    answer = answer_to(llada_model, max_tokens=max_tokens, block_length=block_length)
    answer.begin_block()
    sequence = answer.sequence(conditional=True)
    assert (sequence.start, sequence.end) == (2, 2 + block)
    assert sequence.token_ids == [5, 6] + [MASK] * visible


def test_the_prompt_is_masks_without_condition_but_the_answer_is_seen(llada_model: MaskModel) -> None:
    answer = answer_to(llada_model, max_tokens=20, block_length=4)
    answer.begin_block()
    answer.commit([11, 12, 13, 14])
    block = answer.begin_block()
    answer.block = block.unmasked({2: 33})
    sequence = answer.sequence(conditional=False)
    assert sequence.token_ids[:10] == [MASK, MASK, 11, 12, 13, 14, MASK, MASK, 33, MASK]
    assert (sequence.start, sequence.end, len(sequence.token_ids)) == (6, 10, 22)
    assert answer.sequence(conditional=True).token_ids[2:] == sequence.token_ids[2:]


@given(st.lists(st.sampled_from([EOS, 20, 21, None]), min_size=1, max_size=8))
def test_a_block_is_done_without_masks_or_before_the_first_at_an_eos(content: list[int | None]) -> None:
    block = MaskedBlock([MASK if token is None else token for token in content], [token is None for token in content])
    before = content.index(None) if None in content else len(content)
    whole = None if None in content else content
    expected = content[: content.index(EOS) + 1] if EOS in content[:before] else whole
    assert block.answer({EOS, 8}) == expected
    assert block.answer(()) == whole
