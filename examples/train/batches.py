"""Training sequences: each begins where a document begins, as a request does when it is served."""

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import torch

from examples.train.prepare import Corpus


@dataclass(frozen=True)
class Batch:
    """`tokens` [B, L+1] int64; `answers` [B]: where the first answer of the first document begins (0: a plain story)."""

    tokens: torch.Tensor
    answers: torch.Tensor


def batches(corpus: Corpus, *, rows: int, length: int, seed: int) -> Iterator[Batch]:
    """Endless batches of `length` + 1 tokens; every document comes once per epoch, in a new order each time."""
    rng = np.random.default_rng(seed)
    usable = np.flatnonzero(corpus.starts + length + 1 <= len(corpus.tokens))
    while True:
        order = rng.permutation(usable)
        for i in range(0, len(order) - rows + 1, rows):
            chosen = order[i : i + rows]
            crops = [corpus.tokens[start : start + length + 1] for start in corpus.starts[chosen]]
            yield Batch(torch.from_numpy(np.stack(crops).astype(np.int64)), torch.from_numpy(corpus.answers[chosen]))
