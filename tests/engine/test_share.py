"""Work that nobody waits for gets its share of a busy engine's time, and no more."""

from itertools import pairwise

from diffusion_worker.engine.share import MOST_SAVED_SECONDS, TimeShare
from hypothesis import given
from hypothesis import strategies as st

seconds = st.floats(1e-4, 2.0)
pieces = st.lists(st.tuples(seconds, seconds), min_size=1, max_size=60)  # of main work, and of other work if it may


@given(share=st.floats(0.001, 0.9), pieces=pieces)
def test_it_gets_no_more_than_its_share_and_one_piece(share: float, pieces: list[tuple[float, float]]) -> None:
    account = TimeShare(share)
    main = other = longest = 0.0
    for main_seconds, other_seconds in pieces:
        account.earn(main_seconds)
        main += main_seconds
        if account.is_due:
            account.spend(other_seconds)
            other += other_seconds
            longest = max(longest, other_seconds)
        assert other <= share / (1 - share) * main + longest + 1e-9


@given(share=st.floats(0.001, 0.9), piece=st.floats(1e-4, 0.1), step=st.floats(1e-4, 0.1))
def test_it_gets_its_share_of_a_long_time(share: float, piece: float, step: float) -> None:
    account = TimeShare(share)
    main = other = 0.0
    for _ in range(2000):
        account.earn(step)
        main += step
        if account.is_due:
            account.spend(piece)
            other += piece
    entitled = min(share / (1 - share) * main, main / step * piece)  # there is one turn after each step
    assert other >= entitled - MOST_SAVED_SECONDS - piece - share / (1 - share) * step


@given(idle_from=st.floats(1.0, 1e6), share=st.floats(0.001, 0.9), piece=st.floats(0.001, 0.1))
def test_what_was_not_used_is_not_caught_up_for_long(idle_from: float, share: float, piece: float) -> None:
    account = TimeShare(share)
    account.earn(idle_from)
    burst = 0.0
    while account.is_due:
        account.spend(piece)
        burst += piece
    assert burst <= MOST_SAVED_SECONDS + piece + 1e-9


@given(st.lists(seconds, max_size=50))
def test_a_share_of_nothing_is_nothing(main: list[float]) -> None:
    account = TimeShare(0)
    for main_seconds in main:
        account.earn(main_seconds)
        assert not account.is_due


@given(pieces)
def test_a_share_of_everything_is_every_other_turn(pieces: list[tuple[float, float]]) -> None:
    account = TimeShare(1)
    turns = []
    for main_seconds, other_seconds in pieces:
        account.earn(main_seconds)
        turns.append("main")
        if account.is_due:
            account.spend(other_seconds)
            turns.append("other")
    assert all(before != after for before, after in pairwise(turns) if before == "other")
