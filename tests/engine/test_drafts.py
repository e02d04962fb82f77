"""The canvas in work as text: for who asks, seldom, and without any effect on the answer."""

from itertools import groupby

import pytest
from diffusion_worker.engine.drafts import MOST_PER_CANVAS, is_due
from diffusion_worker.engine.output import Output
from diffusion_worker.models.ar import ARModel
from diffusion_worker.models.diffusion import DiffusionModel
from diffusion_worker.models.mask_diffusion import MaskModel
from diffusion_worker.wire import BlockEvent, DraftEvent
from hypothesis import assume, given
from hypothesis import strategies as st

from tests.engine.answers import Answer, request, running, send
from tests.engine.checkpoints import CANVAS
from tests.engine.mask_checkpoints import MASK
from tests.engine.runners import ar_runner, diffusion_runner, mask_runner

STEPS = 20


def drafts_of(answer: Answer) -> list[DraftEvent]:
    assert answer.finish
    return [event for event in answer.events if isinstance(event, DraftEvent)]


@given(st.integers(1, 1024))
def test_a_canvas_is_shown_a_few_times_however_many_steps_it_takes(planned_steps: int) -> None:
    shown = [step for step in range(1, planned_steps) if is_due(step, planned_steps=planned_steps)]
    assert len(shown) < MOST_PER_CANVAS
    assert len(shown) >= min(planned_steps - 1, MOST_PER_CANVAS // 2)
    assert len({after - before for before, after in zip([0, *shown], shown, strict=False)}) <= 1


def test_drafts_come_before_their_block_and_change_nothing(diffusion_model: DiffusionModel) -> None:
    runner = diffusion_runner(diffusion_model, max_denoising_steps=STEPS, confidence_threshold=1e-9)
    runner.eos_token_ids = frozenset()
    with running(runner, batch_window_seconds=0.1) as engine:
        shown, neighbour = send(
            engine, request(max_tokens=2 * CANVAS + 3, drafts=True), request(max_tokens=2 * CANVAS + 3)
        )
        drafts = drafts_of(shown)
        assert not drafts_of(neighbour)
    assert shown.text == neighbour.text
    assert shown.finish.completion_tokens == neighbour.finish.completion_tokens
    order = [event.index for event in shown.events if isinstance(event, BlockEvent | DraftEvent)]
    assert order == sorted(order)
    for index, group in groupby(drafts, key=lambda draft: draft.index):
        assert [draft.step for draft in group] == [3, 6, 9, 12, 15, 18], index
    assert {draft.index for draft in drafts} == {0, 1, 2}


def test_a_mask_model_shows_its_guess_for_what_is_not_decided(llada_model: MaskModel) -> None:
    runner = mask_runner(llada_model, max_denoising_steps=8, accept_threshold=1)
    with running(runner) as engine:
        (answer,) = send(engine, request(max_tokens=20, drafts=True))
        drafts = drafts_of(answer)
    assert {draft.index for draft in drafts} == {0, 1}
    mask = runner.tokenizer.decode([MASK])
    assert all(draft.text for draft in drafts)
    assert not any(mask and mask in draft.text for draft in drafts)


def test_an_autoregressive_model_has_no_canvas_to_show(llama_model: ARModel) -> None:
    with running(ar_runner(llama_model)) as engine:
        (answer,) = send(engine, request(drafts=True))
        assert not drafts_of(answer)


def test_a_draft_that_cannot_be_made_costs_nothing_but_itself(
    diffusion_model: DiffusionModel, monkeypatch: pytest.MonkeyPatch
) -> None:
    def broken(self: Output, token_ids: list[int]) -> str:
        raise ValueError("no such token")

    monkeypatch.setattr(Output, "preview", broken)
    with running(diffusion_runner(diffusion_model)) as engine:
        (answer,) = send(engine, request(drafts=True))
        assert not drafts_of(answer)
        assert answer.blocks


@given(
    before=st.lists(st.integers(8, 299), max_size=12),
    token_ids=st.lists(st.integers(8, 299), min_size=1, max_size=12),
    stops=st.lists(st.sampled_from(["e", "th", " a", "\n"]), max_size=2),
    max_tokens=st.integers(1, 30),
)
def test_a_draft_reads_as_the_block_would_that_ended_the_answer(
    diffusion_model: DiffusionModel, before: list[int], token_ids: list[int], stops: list[str], max_tokens: int
) -> None:
    def output() -> Output:
        made = Output(
            tokenizer=diffusion_model.tokenizer, eos_token_ids=frozenset({9}), max_tokens=max_tokens, stops=stops
        )
        ended.append(made.push(before).finish is not None)
        return made

    ended: list[bool] = []
    looked_at, untouched = output(), output()
    assume(not any(ended))
    preview = looked_at.preview(token_ids)
    assert looked_at.preview(token_ids) == preview
    block = looked_at.push(token_ids)
    assert block == untouched.push(token_ids)  # looking has changed nothing
    text = block.text
    if block.finish is None:
        text += untouched.push([9]).text  # what a stop string or half a character still held back
    assert text.rstrip("\ufffd") == preview.rstrip("\ufffd")
