"""Training sequences, and where in them the canvases lie: where they lie when the model serves."""

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import torch

from examples.train.geometry import CANVASES, ENCODED, SEQUENCE
from examples.train.models import CANVAS
from examples.train.prepare import Corpus

SHIFTED_SHARE = 0.1
"""Share of answers whose canvases begin later, as when a user's own text is continued."""


@dataclass(frozen=True)
class Batch:
    """`tokens` and the number of their document, both [B, L+1] int64; `begins` [B, K]: first positions of the canvases."""

    tokens: torch.Tensor
    documents: torch.Tensor
    begins: torch.Tensor


def token_batches(corpus: Corpus, *, rows: int, length: int, seed: int) -> Iterator[tuple[torch.Tensor, torch.Tensor]]:
    """Endless batches of tokens and the numbers of their documents, both [B, length + 1].

    Each row begins with a document; every document comes first once per epoch.
    """
    rng = np.random.default_rng(seed)
    document = _document_numbers(corpus)
    for starts in _starts(corpus, rows, length, rng):
        yield (
            torch.from_numpy(_crops(corpus.tokens, starts, length)),
            torch.from_numpy(_crops(document, starts, length)),
        )


def canvas_batches(corpus: Corpus, *, rows: int, seed: int) -> Iterator[Batch]:
    """The same with canvases: those of an answer one behind the other from its first token on."""
    rng = np.random.default_rng(seed)
    document = _document_numbers(corpus)
    plain = np.setdiff1d(corpus.starts, corpus.starts[document[corpus.answers]])
    texts = np.sort(np.concatenate((corpus.answers, plain)))  # where texts begin that the model is to write
    is_plain = np.isin(texts, plain)
    ends = np.append(np.flatnonzero(corpus.tokens == corpus.tokens[-1]), len(corpus.tokens))
    last = ends[np.searchsorted(ends, texts)]
    for starts in _starts(corpus, rows, SEQUENCE, rng):
        begins = [_canvases(texts, is_plain, last, start, rng) for start in starts]
        yield Batch(
            torch.from_numpy(_crops(corpus.tokens, starts, SEQUENCE)),
            torch.from_numpy(_crops(document, starts, SEQUENCE)),
            torch.from_numpy(np.stack(begins)),
        )


def _canvases(
    texts: np.ndarray, is_plain: np.ndarray, last: np.ndarray, start: int, rng: np.random.Generator
) -> np.ndarray:
    """Where K canvases of the sequence at `start` begin, relative to it; in order."""
    first, behind = np.searchsorted(texts, (start, start + ENCODED))
    begins: list[int] = []
    for i in range(first, behind):
        begin = texts[i] - start
        if is_plain[i]:
            begin += rng.integers(1, CANVAS + 1)
        elif rng.random() < SHIFTED_SHARE:
            begin += rng.integers(1, CANVAS)
        begins += range(begin, min(last[i] - start, ENCODED) + 1, CANVAS)
    extra = rng.integers(1, ENCODED + 1, max(0, CANVASES - len(begins)))
    chosen = rng.choice(begins, CANVASES, replace=False) if len(begins) > CANVASES else [*begins, *extra]
    return np.sort(chosen)


def _document_numbers(corpus: Corpus) -> np.ndarray:
    return np.repeat(np.arange(len(corpus.starts)), np.diff(np.append(corpus.starts, len(corpus.tokens))))


def _starts(corpus: Corpus, rows: int, length: int, rng: np.random.Generator) -> Iterator[np.ndarray]:
    usable = corpus.starts[corpus.starts + length + 1 <= len(corpus.tokens)]
    while True:
        order = rng.permutation(usable)
        for i in range(0, len(order) - rows + 1, rows):
            yield order[i : i + rows]


def _crops(values: np.ndarray, starts: np.ndarray, length: int) -> np.ndarray:
    return np.stack([values[start : start + length + 1] for start in starts]).astype(np.int64)
