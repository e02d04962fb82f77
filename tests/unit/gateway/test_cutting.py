"""Two texts are compared at the same length."""

import pytest
from diffusion_gateway.pairs.cutting import cut_alike
from hypothesis import given, settings
from hypothesis import strategies as st


@pytest.mark.parametrize(
    ("one", "other", "cut"),
    [
        ("the fox ran", "the bear slept", ("the fox ran", "the bear")),
        ("the fox ran", "the fox ran", ("the fox ran", "the fox ran")),
        ("a bear slept", "a fox", ("a bear"[:1], "a fox")),
        ("a fox slept", "a fox", ("a fox", "a fox")),
        (" went down the hill", " went up", (" went", " went up")),
        ("狐狸走进了森林", "狐狸跑了", ("狐狸走进", "狐狸跑了")),
        ("Donaudampfschiff", "Donau", ("Donau", "Donau")),
    ],
)
def test_the_longer_text_ends_where_a_word_ends(one: str, other: str, cut: tuple[str, str]) -> None:
    assert cut_alike(one, other) == cut


texts = st.text(st.sampled_from("ab \n"), max_size=40)


@settings(deadline=None, derandomize=True)
@given(texts, texts)
def test_both_are_beginnings_and_the_shorter_one_is_whole(one: str, other: str) -> None:
    cut = cut_alike(one, other)
    assert one.startswith(cut[0])
    assert other.startswith(cut[1])
    assert max(map(len, cut)) <= min(len(one), len(other))
    assert (one if len(one) <= len(other) else other) in cut


@settings(deadline=None, derandomize=True)
@given(texts, texts)
def test_it_does_not_matter_which_side_is_which(one: str, other: str) -> None:
    assert cut_alike(other, one) == cut_alike(one, other)[::-1]


@settings(deadline=None, derandomize=True)
@given(texts, texts)
def test_a_side_that_says_something_still_does(one: str, other: str) -> None:
    for whole, cut in zip((one, other), cut_alike(one, other), strict=True):
        if whole[:1].strip() and cut_alike(one, other)[0] + cut_alike(one, other)[1]:
            assert bool(cut.strip()) == bool(min(len(one), len(other)))
