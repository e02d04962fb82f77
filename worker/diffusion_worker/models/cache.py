"""Keys and values of autoregressive rows, in slots of one storage that transformers' layers read as a batch.

Rows take the slots 0 … n-1 without holes, so that a pass over all rows sees a view of the storage, not a copy. Slots
are padded on the right up to the longest row; masks hide the padding. The storage grows with the number of rows and
with the longest of them, and goes when the last row ends. It never has more slots than rows, or more tokens in each than
the longest row may get, at the moment when it grows: so it stays within what these rows were admitted for. Diffusion models have a cache of their own: `row_cache`.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field

import torch
from transformers.cache_utils import Cache

from diffusion_worker.sizing.cache import PADDED_GRANULARITY, rounded_up


@dataclass
class _LayerStorage:
    keys: torch.Tensor  # [slots, H, capacity, D]
    values: torch.Tensor


@dataclass
class KVCache:
    """Storage for up to `max_rows` rows of up to `max_length` tokens."""

    max_rows: int
    max_length: int
    rows: int = 0
    peak_nbytes: int = 0  # the most bytes held at once
    _layers: list[_LayerStorage] = field(default_factory=list)
    _most: list[int] = field(default_factory=list)  # tokens that the row in each slot may get

    @property
    def nbytes(self) -> int:
        """Bytes held now, padding included."""
        return sum(layer.keys.nbytes + layer.values.nbytes for layer in self._layers)

    def take_slot(self) -> int:
        """The next free slot. Its content is zero."""
        if self.rows == self.max_rows:
            raise RuntimeError(f"all {self.max_rows} slots of the cache are taken")
        self.rows += 1
        self._most.append(self.max_length)
        return self.rows - 1

    def expect_at_most(self, slot: int, tokens: int) -> None:
        """Say how many tokens the row in a slot may get; else it is `max_length`."""
        self._most[slot] = tokens

    @torch.inference_mode()
    def free_slot(self, slot: int) -> int | None:
        """Give a slot back. The last row moves into the hole: the slot it had is returned, None when nothing moved."""
        last = self.rows - 1
        self._most[slot] = self._most[last]
        self._most.pop()
        if last == 0:
            self._layers.clear()
        for layer in self._layers:
            for storage in (layer.keys, layer.values):
                is_stored = last < len(storage)  # not so when it has been in no pass yet
                if slot != last and is_stored:
                    storage[slot] = storage[last]
                # Padding is masked, but a NaN that a failed row leaves there would get through: 0 · NaN is NaN.
                if is_stored:
                    storage[last].zero_()
                elif slot < len(storage):
                    storage[slot].zero_()
        self.rows = last
        return last if slot != last else None

    def view(self, slots: Sequence[int], lengths: Sequence[int]) -> "CacheView":
        """What a forward pass over the rows in `slots`, which hold `lengths` tokens, reads and writes."""
        return CacheView(self, slots, lengths)

    def layer(self, index: int, like: torch.Tensor, length: int) -> _LayerStorage:
        """Storage of a layer with room for `length` tokens; `like` [B, H, Q, D] shows its shape, type and device."""
        _, heads, _, width = like.shape
        if index == len(self._layers):
            empty = like.new_zeros(0, heads, 0, width)
            self._layers.append(_LayerStorage(keys=empty, values=empty.clone()))
        layer = self._layers[index]
        slots, _, capacity, _ = layer.keys.shape
        if self.rows > slots or length > capacity:
            if length > capacity:
                capacity = rounded_up(max(length, capacity + capacity // 2), PADDED_GRANULARITY)
            capacity = min(capacity, max(length, *self._most))
            layer.keys = _grown(layer.keys, self.rows, capacity)  # one by one: there need not be room for all of both
            layer.values = _grown(layer.values, self.rows, capacity)
            self.peak_nbytes = max(self.peak_nbytes, self.nbytes)
        return layer


class CacheView(Cache):
    """The rows of one pass, as transformers' layers want to see them: they write and read through `update`."""

    def __init__(self, cache: KVCache, slots: Sequence[int], lengths: Sequence[int]) -> None:
        super().__init__(layers=[])
        self._cache = cache
        self._slots = list(slots)
        self._lengths = list(lengths)
        self._contiguous = self._slots == list(range(len(self._slots)))
        self._targets: tuple[torch.Tensor, ...] | None = None

    def expect(self, valid: torch.Tensor, positions: torch.Tensor) -> None:
        """Say which tokens the pass writes: `valid` bool [B, Q] (False: padding), `positions` [B, Q]."""
        row, column = valid.nonzero(as_tuple=True)
        slots = torch.tensor(self._slots, device=valid.device)
        self._targets = (row, column, slots[row], positions[row, column])
        self._written = int(positions[row, column].max()) + 1
        self._length = max(max(self._lengths), self._written)

    def update(
        self, key_states: torch.Tensor, value_states: torch.Tensor, layer_idx: int, *_: object, **__: object
    ) -> tuple[torch.Tensor, torch.Tensor]:
        """Write new keys and values [B, H, Q, D]; returns all of them [B, H, K, D], old and new."""
        if self._targets is None:
            raise RuntimeError("expect() has to say what is written before a pass")
        row, column, slot, position = self._targets
        layer = self._cache.layer(layer_idx, key_states, self._length)
        for storage, states in ((layer.keys, key_states), (layer.values, value_states)):
            storage[slot, :, position] = states[row, :, column]
        return self._select(layer.keys), self._select(layer.values)

    @property
    def is_compileable(self) -> bool:
        """Whether transformers may assume fixed shapes: no."""
        return False

    @property
    def kv_length(self) -> int:
        """K of the keys that `update` returns."""
        return self._length

    def _select(self, storage: torch.Tensor) -> torch.Tensor:
        if self._contiguous:
            return storage[: len(self._slots), :, : self._length]
        return storage[self._slots, :, : self._length]


def _grown(old: torch.Tensor, slots: int, capacity: int) -> torch.Tensor:
    """With other numbers of slots and tokens; what does not fit is of no row."""
    _, heads, _, width = old.shape
    grown = old.new_zeros(slots, heads, capacity, width)
    kept = old[:slots, :, :capacity]
    grown[: kept.shape[0], :, : kept.shape[2]] = kept
    return grown
