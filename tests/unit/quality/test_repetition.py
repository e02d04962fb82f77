"""Texts that people write do not count as repeating themselves, loops do; under a tokenizer, by words and by characters."""

import re
from collections.abc import Callable
from pathlib import Path

import pytest
from diffusion_worker.quality import DEFAULT_WINDOW, degeneration
from tokenizers import Tokenizer

TEXTS = sorted(Path(__file__).with_name("texts").glob("*.txt"))
CHECKPOINT = Path(__file__).parents[3] / "examples" / "checkpoints" / "storyteller"
_TOKENIZER = Tokenizer.from_file(str(CHECKPOINT / "tokenizer.json"))


def by_tokenizer(text: str) -> list[int]:
    return list(_TOKENIZER.encode(text, add_special_tokens=False).ids)


def by_words(text: str) -> list[int]:
    return [hash(word) for word in re.findall(r"\w+|[^\w\s]|\n", text)]


def by_characters(text: str) -> list[int]:
    return [ord(character) for character in text]


Tokens = Callable[[str], list[int]]
tokenizations = pytest.mark.parametrize("tokens", [by_tokenizer, by_words, by_characters])

LOOPS = {
    "a word": "the " * 60,
    "two words": "very good " * 40,
    "a phrase": "in the middle of " * 20,
    "a sentence": "The fox went home to the wood. " * 12,
    "a line of a list": "- buy milk and bread\n" * 12,
    "a line of code": "    x = x + 1\n" * 20,
    "a row of a table": "| 1 | 2 | 3 |\n" * 20,
}
START = "Once upon a time there was a queen who lived in a glass palace by the sea, far from all roads, with nobody but an old cook and his daughter. "


@tokenizations
@pytest.mark.parametrize("text", TEXTS, ids=lambda path: path.stem)
def test_what_people_write_does_not_repeat(text: Path, tokens: Tokens) -> None:
    found = degeneration(tokens(text.read_text()))
    assert found is not None
    assert not found.repeats


@pytest.mark.parametrize("name", ["prose", "summary", "list_numbered"])
def test_prose_is_far_from_the_limit(name: str) -> None:
    text = next(path for path in TEXTS if path.stem == name)
    found = degeneration(by_tokenizer(text.read_text()))
    assert found is not None
    assert found.repetition < 0.35


@tokenizations
@pytest.mark.parametrize("loop", LOOPS.values(), ids=LOOPS.keys())
def test_a_loop_behind_good_text_repeats(loop: str, tokens: Tokens) -> None:
    found = degeneration(tokens(START + loop))
    assert found is not None
    assert (found.repetition, found.repeats) == (1.0, True)


@tokenizations
def test_a_loop_in_the_middle_is_found_too(tokens: Tokens) -> None:
    found = degeneration(tokens(START + LOOPS["a phrase"] + START))
    assert found is not None
    assert found.repeats


@tokenizations
def test_a_loop_has_few_different_pairs(tokens: Tokens) -> None:
    good, bad = degeneration(tokens(START)), degeneration(tokens(START + LOOPS["a sentence"]))
    assert good is not None
    assert bad is not None
    assert bad.distinct_2 < 0.5 * good.distinct_2


@pytest.mark.parametrize("run", [" " * 24, "-" * 31, "." * 31])
def test_indentation_and_ruled_lines_are_no_repetition(run: str) -> None:
    found = degeneration(by_characters("".join(f"{run}{number}\n" for number in range(10, 20))))
    assert found is not None
    assert not found.repeats


def test_a_run_as_long_as_the_window_is_a_loop() -> None:
    assert degeneration([7] * (DEFAULT_WINDOW + 4)).repeats  # type: ignore[union-attr]


@pytest.mark.parametrize(("length", "is_checked"), [(0, False), (1, False), (31, False), (32, True)])
def test_an_answer_shorter_than_the_window_is_not_checked(length: int, is_checked: bool) -> None:
    assert (degeneration(range(length)) is not None) == is_checked


@pytest.mark.parametrize("window", [1, 0, -5])
def test_a_window_in_which_nothing_can_repeat_is_refused(window: int) -> None:
    with pytest.raises(ValueError, match=f"the window is {window} tokens"):
        degeneration([1, 2, 3], window=window)
