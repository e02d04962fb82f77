"""Training canvases lie where the sampler will have them."""

import itertools

import numpy as np
import pytest
import torch

from examples.train.batches import Batch, canvas_batches, token_batches
from examples.train.documents import documents
from examples.train.geometry import CANVASES, ENCODED, SEQUENCE, encoder_masks, lay_out
from examples.train.models import CANVAS, WINDOW
from examples.train.prepare import Corpus, pack
from examples.train.tokenizer import BOS, train_tokenizer

FREQUENCIES = {"full_attention": torch.ones(4), "sliding_attention": torch.ones(4)}


@pytest.fixture(scope="module")
def corpus() -> Corpus:
    """A few hundred documents."""
    made = list(documents(300, seed=3))
    return pack(train_tokenizer(turn.text for d in made for turn in d.turns), made)


@pytest.fixture(scope="module")
def drawn(corpus: Corpus) -> list[Batch]:
    """Batches of it."""
    return list(itertools.islice(canvas_batches(corpus, rows=4, seed=0), 40))


def test_rows_begin_with_documents(corpus: Corpus) -> None:
    tokens, numbers = next(token_batches(corpus, rows=5, length=100, seed=0))
    assert tokens.shape == numbers.shape == (5, 101)
    assert (tokens[:, 0] == BOS).all()


def test_every_canvas_fits_and_has_a_token_before_it(drawn: list[Batch]) -> None:
    for batch in drawn:
        assert batch.begins.shape == (4, CANVASES)
        assert (batch.begins >= 1).all()
        assert (batch.begins + CANVAS <= SEQUENCE).all()


def test_most_canvases_stand_a_whole_number_of_canvases_behind_the_answer(corpus: Corpus, drawn: list[Batch]) -> None:
    aligned = total = 0
    for batch in drawn:
        for row, tokens in enumerate(batch.tokens):
            start = next(s for s in corpus.starts if (corpus.tokens[s : s + SEQUENCE + 1] == tokens.numpy()).all())
            for begin in start + batch.begins[row].numpy():
                answers = corpus.answers[corpus.answers <= begin]
                aligned += len(answers) > 0 and (begin - answers[-1]) % CANVAS == 0
                total += 1
    assert 0.5 < aligned / total < 1.0


def test_canvases_and_cached_tokens_see_their_own_document_only(drawn: list[Batch]) -> None:
    for batch in drawn[:5]:
        geometry = lay_out(batch.begins, batch.documents, FREQUENCIES)
        for row, column in np.ndindex(4, CANVASES):
            begin = batch.begins[row, column]
            own = batch.documents[row, :ENCODED] == batch.documents[row, begin]
            expected = own & (torch.arange(ENCODED) < begin)
            seen = geometry.full_mask[row, 0, column * CANVAS, :ENCODED]
            assert torch.equal(seen, expected)
            near = geometry.near[row, column][geometry.near_mask[row, column, : WINDOW - 1]]
            assert near.tolist() == torch.arange(ENCODED)[expected & (torch.arange(ENCODED) > begin - WINDOW)].tolist()
        causal = encoder_masks(batch.documents)["full_attention"]
        across = batch.documents[:, :ENCODED, None] != batch.documents[:, None, :ENCODED]
        assert not (causal[:, 0] & across).any()
