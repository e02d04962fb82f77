"""Background requests run in rows that nobody else wants, and give them back within a step."""

from collections.abc import Callable, Sequence
from types import SimpleNamespace

import pytest
from diffusion_worker.engine import Engine
from diffusion_worker.engine.background import has_room, in_the_way
from diffusion_worker.engine.row import Row
from diffusion_worker.models.ar import ARModel
from hypothesis import given
from hypothesis import strategies as st

from tests.engine.answers import Answer, request, running, send
from tests.engine.runners import WatchedRunner, ar_runner

BACKGROUND = request(request_id="background", background=True, max_tokens=100)
LIVE = request(request_id="live", max_tokens=5)


class Script:
    """Does something before given steps, and notes which rows each had."""

    def __init__(self, model: ARModel, *, slots: int, at: dict[int, Callable[[Engine], None]]) -> None:
        inner = ar_runner(model, max_batch_size=slots)
        inner.eos_token_ids = frozenset()
        self.runner = WatchedRunner(inner, before_step=self._before_step)
        self.steps: list[list[str]] = []
        self.engine: Engine
        self._at = at

    def _before_step(self, rows: Sequence[Row]) -> None:
        self.steps.append([row.request_id for row in rows])
        self._at.get(len(self.steps), lambda engine: None)(self.engine)


def test_it_is_answered_as_any_other_while_nobody_else_comes(llama_model: ARModel) -> None:
    with running(ar_runner(llama_model)) as engine:
        background, live = send(engine, request(background=True), request())
        assert background.finish
        assert live.finish
    assert background.text == live.text


def test_its_answer_comes_in_one_piece(llama_model: ARModel) -> None:
    with running(ar_runner(llama_model)) as engine:
        background, live = send(engine, request(background=True, logprobs=1), request(logprobs=1))
        assert background.finish == live.finish.model_copy(update={"queue_seconds": background.finish.queue_seconds})
    (block,) = background.blocks
    assert len(live.blocks) > 1
    assert (block.index, block.text, block.tokens) == (0, live.text, live.finish.completion_tokens)
    assert block.steps == live.finish.steps
    told, once = [token for each in live.blocks for token in each.logprobs or ()], block.logprobs or ()
    assert [token.utf8 for token in once] == [token.utf8 for token in told]
    # Not bit for bit: the two may have begun a step apart, and products of other shapes are summed in another order.
    assert [token.logprob for token in once] == pytest.approx([token.logprob for token in told], abs=1e-5)


@pytest.mark.parametrize("slots", [1, 2])
def test_it_makes_room_before_the_next_step_when_another_needs_its_row(llama_model: ARModel, slots: int) -> None:
    answers: list[Answer] = []
    script = Script(llama_model, slots=slots, at={3: lambda engine: answers.extend(send(engine, *[LIVE] * slots))})
    with running(script.runner) as script.engine:
        (background,) = send(script.engine, BACKGROUND)
        assert background.error.code == "preempted"
        assert all(answer.finish for answer in answers)
    assert script.steps[:4] == [["background"]] * 3 + [["live"] * slots]
    assert script.runner.slots_taken == 0


def test_it_goes_on_beside_others_while_there_are_rows_for_all(llama_model: ARModel) -> None:
    answers: list[Answer] = []
    script = Script(llama_model, slots=2, at={3: lambda engine: answers.extend(send(engine, LIVE))})
    with running(script.runner) as script.engine:
        (background,) = send(script.engine, BACKGROUND)
        assert background.finish.completion_tokens == 100
        assert answers[0].finish


def test_the_one_that_has_done_least_goes_first(llama_model: ARModel) -> None:
    later: list[Answer] = []
    second = BACKGROUND.model_copy(update={"request_id": "second"})
    script = Script(
        llama_model,
        slots=2,
        at={
            5: lambda engine: later.extend(send(engine, second)),
            8: lambda engine: later.extend(send(engine, LIVE)),
        },
    )
    with running(script.runner) as script.engine:
        (first,) = send(script.engine, BACKGROUND)
        assert first.finish
        assert later[0].error.code == "preempted"
        assert later[1].finish


def test_it_is_refused_at_once_where_all_rows_are_taken(llama_model: ARModel) -> None:
    refused: list[Answer] = []
    script = Script(llama_model, slots=1, at={2: lambda engine: refused.extend(send(engine, BACKGROUND))})
    with running(script.runner) as script.engine:
        (live,) = send(script.engine, LIVE)
        assert live.finish
        assert refused[0].error.code == "overloaded"
    assert script.steps == [["live"]] * 5


def test_one_that_waits_for_company_is_no_reason_for_another_to_wait(llama_model: ARModel) -> None:
    runner = ar_runner(llama_model, max_batch_size=1)
    with running(runner, batch_window_seconds=0.2) as engine:
        background, live = send(engine, BACKGROUND, LIVE)
        assert live.finish
        assert background.error.code == "preempted"


rows = st.lists(st.builds(SimpleNamespace, background=st.booleans(), steps=st.integers(0, 100)), max_size=20)


@given(rows=rows, slots=st.integers(1, 8))
def test_only_as_many_go_as_others_need_and_those_that_have_done_least(rows: list[SimpleNamespace], slots: int) -> None:
    gone = in_the_way(rows, slots=slots)  # type: ignore[arg-type]
    background = [row for row in rows if row.background]
    assert all(row.background for row in gone)
    assert len(gone) == min(len(background), max(0, len(rows) - slots))
    stays = [row for row in background if all(row is not other for other in gone)]
    assert max((row.steps for row in gone), default=0) <= min((row.steps for row in stays), default=100)
    if has_room(rows, slots=slots):  # type: ignore[arg-type]
        assert not in_the_way([*rows, SimpleNamespace(background=True, steps=0)], slots=slots)  # type: ignore[list-item]
