"""Measures of text quality."""

import pytest

from examples.train.metrics import answered, distinct_pairs, repetition


def test_a_text_without_repeats_has_no_repetition() -> None:
    assert repetition(list(range(100))) == 0


def test_a_loop_is_repetition_from_its_second_round_on() -> None:
    assert repetition([1, 2, 3, 4] * 2) == 0.5


def test_what_was_said_long_ago_does_not_count_as_repetition() -> None:
    assert repetition([1, 2, 3, 4, *range(10, 60), 1, 2, 3, 4]) == 0


def test_distinct_pairs_of_a_loop_are_few() -> None:
    assert distinct_pairs([1, 2] * 50) == pytest.approx(2 / 99)


@pytest.mark.parametrize(
    ("answer", "score"),
    [("The fox saw the storm.", 1.0), ("The fox slept.", 0.5), ("Nothing happened.", 0.0)],
)
def test_the_score_counts_the_asked_for_words(answer: str, score: float) -> None:
    assert answered("Tell me a story about a fox and a storm.", answer) == score


def test_an_open_request_has_no_score() -> None:
    assert answered("Tell me a story.", "Once upon a time.") is None
