"""Which answers a diffusion arm had better not send while AR could still answer."""

from collections.abc import Sequence

from diffusion_gateway.reasons import Reason
from diffusion_gateway.shortcomings import shortcoming
from diffusion_gateway.tally import Tally
from diffusion_worker.wire import BlockEvent, Degeneration, FinishEvent


def row(*converged: bool, text: str = "x", finished: bool = True, repeats: bool | None = None) -> Tally:
    tally = Tally()
    for index, each in enumerate(converged):
        tally.add(BlockEvent(index=index, text=text, tokens=1, steps=5, converged=each), now=1.0)
    if finished:
        degeneration = None if repeats is None else Degeneration(repetition=0.9, repeats=repeats, distinct_2=0.1)
        finish = FinishEvent(
            reason="stop",
            prompt_tokens=1,
            completion_tokens=len(converged),
            steps=1,
            blocks=len(converged),
            seed=1,
            queue_seconds=0.0,
            degeneration=degeneration,
        )
        tally.add(finish, now=2.0)
    return tally


def of(*rows: Tally, refuses_unconverged: bool = True, has_stop_strings: bool = False) -> Reason | None:
    return shortcoming(rows, refuses_unconverged=refuses_unconverged, has_stop_strings=has_stop_strings)


def verdicts(*cases: Sequence[bool]) -> list[Reason | None]:
    return [of(row(*case)) for case in cases]


def test_a_good_answer_has_none() -> None:
    assert of(row(True, True, repeats=False)) is None
    assert of(row(True, finished=False)) is None


def test_an_answer_without_text_is_empty() -> None:
    assert of(row()) == Reason.EMPTY
    assert of(row(True, text="")) == Reason.EMPTY
    assert of(row(True), row(True, text="")) == Reason.EMPTY


def test_an_answer_that_a_stop_string_ended_at_once_is_what_was_asked_for() -> None:
    assert of(row(True, text=""), has_stop_strings=True) is None
    assert of(row(), has_stop_strings=True) == Reason.EMPTY  # no token: the model said nothing by itself


def test_nothing_is_empty_before_its_end() -> None:
    assert of(row(True, text="", finished=False)) is None


def test_an_answer_that_repeats_itself_is_found_out() -> None:
    assert of(row(True, repeats=True)) == Reason.REPETITION
    assert of(row(True, repeats=False), row(True, repeats=True)) == Reason.REPETITION


def test_more_than_half_of_the_canvases_make_an_answer_unconverged() -> None:
    bad = Reason.UNCONVERGED
    assert verdicts([False], [False, True], [False, False, True], [True, True, False]) == [bad, None, bad, None]


def test_the_first_canvas_of_a_stream_decides() -> None:
    assert of(row(False, finished=False)) == Reason.UNCONVERGED


def test_unconverged_answers_are_accepted_where_nobody_refuses_them() -> None:
    assert of(row(False, False), refuses_unconverged=False) is None
