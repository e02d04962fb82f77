"""Pieces of text put together equal the whole, and no piece ends in the middle of a character."""

from collections.abc import Sequence
from itertools import pairwise
from pathlib import Path

import pytest
from diffusion_worker.engine.detokenizer import Detokenizer
from diffusion_worker.engine.stops import StopMatcher
from diffusion_worker.models.tokenizer import Tokenizer, load_tokenizer
from hypothesis import given
from hypothesis import strategies as st
from tokenizers import Tokenizer as FastTokenizer
from tokenizers import decoders, models
from transformers import PreTrainedTokenizerFast

from tests.engine.checkpoints import VOCAB, save_tokenizer

TEXT = "the fox 🦊 said: „déjà vu“ 今日は — 👩‍🚀!"


@pytest.fixture(scope="module")
def tokenizer(tmp_path_factory: pytest.TempPathFactory) -> Tokenizer:
    """Byte-level, so that characters outside ASCII are several tokens."""
    folder: Path = tmp_path_factory.mktemp("tokenizer")
    save_tokenizer(folder)
    return load_tokenizer(folder)


def test_a_character_comes_out_only_when_it_is_complete(tokenizer: Tokenizer) -> None:
    detokenizer = Detokenizer(tokenizer)
    pieces = [detokenizer.push([token_id]) for token_id in tokenizer.encode(TEXT)]
    assert "".join(pieces) == TEXT
    assert detokenizer.flush() == ""
    assert not any("\ufffd" in piece for piece in pieces)


def test_half_a_character_at_the_end_is_flushed_as_a_replacement(tokenizer: Tokenizer) -> None:
    detokenizer = Detokenizer(tokenizer)
    piece = detokenizer.push(tokenizer.encode("a🦊")[:-1])
    assert piece == "a"
    assert set(detokenizer.flush()) == {"\ufffd"}


@pytest.mark.parametrize("token", ["<pad>", "🦊"])
def test_no_token_makes_the_next_one_slower_however_often_it_comes(tokenizer: Tokenizer, token: str) -> None:
    token_id = tokenizer.encode(token)[0]  # of the fox, the first byte
    longest = 0

    class Counting(Tokenizer):
        def __init__(self) -> None:
            """Counts what is decoded at a time."""

        def decode(self, token_ids: Sequence[int]) -> str:
            nonlocal longest
            longest = max(longest, len(token_ids))
            return tokenizer.decode(token_ids)

    detokenizer = Detokenizer(Counting())
    text = "".join(detokenizer.push([token_id]) for _ in range(3000)) + detokenizer.flush()
    assert text == tokenizer.decode([token_id] * 3000)
    assert longest <= 2100


@given(st.lists(st.lists(st.integers(0, VOCAB - 1), max_size=6), max_size=12))
def test_any_tokens_in_any_pieces_give_the_text_of_the_whole(tokenizer: Tokenizer, pieces: list[list[int]]) -> None:
    detokenizer = Detokenizer(tokenizer)
    text = "".join(detokenizer.push(piece) for piece in pieces) + detokenizer.flush()
    assert text == tokenizer.decode([token_id for piece in pieces for token_id in piece])


def test_spaces_between_words_survive_a_tokenizer_that_drops_the_first_one() -> None:
    words = {"<unk>": 0, "▁the": 1, "▁fox": 2, "es": 3}
    fast = FastTokenizer(models.WordLevel(words, unk_token="<unk>"))
    fast.decoder = decoders.Metaspace()
    detokenizer = Detokenizer(Tokenizer(PreTrainedTokenizerFast(tokenizer_object=fast)))
    assert [detokenizer.push([token_id]) for token_id in (1, 2, 3, 1)] == ["the", " fox", "es", " the"]


@given(
    text=st.text("ab", max_size=30),
    stops=st.lists(st.text("ab", min_size=1, max_size=4), min_size=1, max_size=3),
    cuts=st.lists(st.integers(0, 30), max_size=6),
)
def test_stop_strings_end_the_text_wherever_it_is_cut(text: str, stops: list[str], cuts: list[int]) -> None:
    matcher = StopMatcher(stops)
    borders = [0, *sorted(min(cut, len(text)) for cut in cuts), len(text)]
    out, stopped = "", False
    for start, end in pairwise(borders):
        piece, stopped = matcher.push(text[start:end])
        out += piece
        if stopped:
            break
    else:
        out += matcher.flush()
    assert stopped == any(stop in text for stop in stops)
    # The first stop string to be completed ends the text, as if it had come letter by letter.
    completed = [(text.index(stop) + len(stop), text.index(stop)) for stop in stops if stop in text]
    assert out == (text[: min(completed)[1]] if completed else text)
