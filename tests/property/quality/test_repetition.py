"""What holds for every text."""

from diffusion_worker.quality import degeneration
from diffusion_worker.quality.repetition import PHRASE
from diffusion_worker.wire import Degeneration
from hypothesis import given
from hypothesis import strategies as st

windows = st.integers(2, 48)
texts = st.lists(st.integers(0, 5), min_size=48, max_size=160) | st.lists(
    st.integers(0, 500), min_size=48, max_size=160
)
NEW = 10_000  # ids from here on are in no text that is drawn


def measured(token_ids: list[int], window: int = 32) -> Degeneration:
    found = degeneration(token_ids, window=window)
    assert found is not None
    return found


@given(texts, windows)
def test_both_measures_are_shares(text: list[int], window: int) -> None:
    found = measured(text, window)
    assert 0 <= found.repetition <= 1
    assert 0 < found.distinct_2 <= 1


@given(texts, windows, st.permutations(range(6)))
def test_only_equality_of_tokens_counts_not_their_ids(text: list[int], window: int, names: list[int]) -> None:
    renamed = [names[token_id] + 7 if token_id < 6 else token_id + 7 for token_id in text]
    assert measured(renamed, window) == measured(text, window)


@given(texts, windows, st.integers(0, 80))
def test_it_does_not_matter_where_in_an_answer_it_repeats(text: list[int], window: int, before: int) -> None:
    shifted = [*range(NEW, NEW + before), *text]
    assert measured(shifted, window).repetition == measured(text, window).repetition


@given(texts, windows, st.lists(st.integers(0, 5), max_size=60))
def test_more_text_never_makes_it_repeat_less(text: list[int], window: int, more: list[int]) -> None:
    assert measured([*text, *more], window).repetition >= measured(text, window).repetition


@given(texts, st.lists(st.integers(0, 500), min_size=1, max_size=32))
def test_a_loop_that_fits_the_window_repeats(text: list[int], phrase: list[int]) -> None:
    assert measured([*text, *(phrase * 80)]).repetition == 1


@given(texts, st.integers(33, 60))
def test_a_loop_longer_than_the_window_is_not_seen(text: list[int], period: int) -> None:
    loop = list(range(NEW, NEW + period)) * 4
    assert measured([*text, *loop]).repetition == measured([*text, *range(NEW, NEW + period)]).repetition


@given(st.lists(st.integers(0, 10**6), min_size=32, max_size=200, unique=True))
def test_a_text_in_which_no_token_comes_twice_has_neither(text: list[int]) -> None:
    assert measured(text) == Degeneration(repetition=0, repeats=False, distinct_2=1)


@given(st.lists(st.integers(0, 500), min_size=PHRASE, max_size=27, unique=True))
def test_saying_a_sentence_twice_is_not_yet_a_loop(sentence: list[int]) -> None:
    start = list(range(NEW, NEW + 32))
    assert not measured([*start, *sentence, *sentence, *range(NEW + 100, NEW + 132)]).repeats
