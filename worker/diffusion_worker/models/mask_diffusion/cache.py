"""Keys and values that the steps of one block share, though they are exact for its first step only.

In a fully bidirectional model the keys of every position depend on all tokens. As the tokens of the block appear, the
keys of the others change a little; they are held fixed until the block is committed (arXiv:2505.22618).
"""

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from transformers.cache_utils import Cache


@dataclass(frozen=True, eq=False)
class BlockCache:
    """Of one row, at all positions of its sequence but those in `query`, which each pass computes anew."""

    states: torch.Tensor  # [layers, T, 2, H, D]: keys after rotation, then values
    query: range

    @property
    def length(self) -> int:
        """T, the positions it has."""
        return self.states.shape[1]

    @property
    def nbytes(self) -> int:
        """Memory that it takes."""
        return self.states.nbytes


class RecordingCache(Cache):
    """For a pass over whole sequences: takes down what the next passes will not compute."""

    def __init__(self, lengths: Sequence[int], queries: Sequence[range], *, layers: int) -> None:
        super().__init__(layers=[])
        self._lengths = lengths
        self._queries = queries
        self._layer_count = layers
        self._states: list[torch.Tensor] = []

    def update(
        self, key_states: torch.Tensor, value_states: torch.Tensor, layer_idx: int, *_: object, **__: object
    ) -> tuple[torch.Tensor, torch.Tensor]:
        """Keys and values [B, H, Q, D], which are all that there are."""
        if layer_idx == 0:
            heads, width = key_states.shape[1], key_states.shape[3]
            self._states = [
                key_states.new_empty(self._layer_count, length - len(query), 2, heads, width)
                for length, query in zip(self._lengths, self._queries, strict=True)
            ]
        for row, (length, query) in enumerate(zip(self._lengths, self._queries, strict=True)):
            for kind, states in enumerate((key_states[row], value_states[row])):
                of_row = self._states[row][layer_idx, :, kind]
                of_row[: query.start] = states[:, : query.start].transpose(0, 1)
                of_row[query.start :] = states[:, query.stop : length].transpose(0, 1)
        return key_states, value_states

    def finished(self) -> list[BlockCache]:
        """What was taken down, after the pass."""
        return [BlockCache(states, query) for states, query in zip(self._states, self._queries, strict=True)]


class ReplayingCache(Cache):
    """For a pass over the positions in `query`: puts what is cached in front of what is computed."""

    def __init__(self, caches: Sequence[BlockCache]) -> None:
        super().__init__(layers=[])
        self._caches = caches

    def update(
        self, key_states: torch.Tensor, value_states: torch.Tensor, layer_idx: int, *_: object, **__: object
    ) -> tuple[torch.Tensor, torch.Tensor]:
        """All keys and values [B, H, T + Q, D] for the new ones [B, H, Q, D]; T is that of the longest row."""
        cached = torch.nn.utils.rnn.pad_sequence([cache.states[layer_idx] for cache in self._caches], batch_first=True)
        keys, values = cached.permute(2, 0, 3, 1, 4)
        return torch.cat([keys, key_states], dim=2), torch.cat([values, value_states], dim=2)
