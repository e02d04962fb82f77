"""Keys and values of diffusion rows: each row has storage of its own, exactly as much as it can still see.

Behind the committed tokens there is room for the tokens of the pass: a prompt's chunk, or the canvas, which every
denoising step writes anew. So attention reads one piece of storage, and no step copies the cache. Sliding layers drop
what they cannot see any more; all of a row's memory is free when the row ends.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import torch

from diffusion_worker.sizing.cache import GRANULARITY, KEY_MULTIPLE, rounded_up


@dataclass(frozen=True)
class Reach:
    """Which committed tokens a layer sees: the first `sink` and the last `past`; all of them when `past` is None."""

    past: int | None
    sink: int = 0

    def dropped(self, length: int) -> int:
        """How many of `length` tokens, those behind the sink, can never be seen again."""
        return 0 if self.past is None else max(0, length - self.sink - self.past)


@dataclass(frozen=True)
class LayerShape:
    """Shape of a layer's keys, which is that of its values."""

    heads: int
    width: int  # of a head
    is_sliding: bool
    reach: Reach


@dataclass(frozen=True)
class CacheBytes:
    """Bytes of keys and values, by the kind of layer."""

    full: int  # layers that see everything, unless the resource sets them a window
    sliding: int

    @property
    def total(self) -> int:
        """Of all layers."""
        return self.full + self.sliding


@dataclass
class LayerStorage:
    """Keys and values of one row in one layer: the sink, then what follows the `dropped` tokens behind it."""

    tokens: torch.Tensor  # [2, H, capacity, D]: keys, values
    dropped: int = 0

    @property
    def capacity(self) -> int:
        """Tokens that fit."""
        return self.tokens.shape[2]


@dataclass
class RowStorage:
    """All layers of one row."""

    layers: list[LayerStorage]
    ready: tuple[int, int] = (-1, -1)  # (length, new) that `reserve` has prepared
    plans: dict[int, Any] = field(default_factory=dict)  # what passes found out, as long as nothing moves


@dataclass
class RowCache:
    """Storage for up to `max_rows` rows of a model with these `layers`."""

    max_rows: int
    layers: Sequence[LayerShape]
    dtype: torch.dtype
    device: torch.device
    canvas_length: int
    _rows: list[RowStorage] = field(default_factory=list)  # at the index of their slot
    _peak: CacheBytes = CacheBytes(full=0, sliding=0)

    def take_slot(self) -> int:
        """The next free slot. It holds no memory yet."""
        if len(self._rows) == self.max_rows:
            raise RuntimeError(f"all {self.max_rows} slots of the cache are taken")
        self._rows.append(RowStorage([LayerStorage(self._empty(shape, 0)) for shape in self.layers]))
        return len(self._rows) - 1

    def free_slot(self, slot: int) -> int | None:
        """Give a slot and all its memory back. The last row takes its number: its old one is returned, None if it is it.

        So the slots in use are always 0 … n-1. No keys or values are copied.
        """
        last = self._rows.pop()
        if slot == len(self._rows):
            return None
        self._rows[slot] = last
        return len(self._rows)

    @property
    def rows(self) -> int:
        """Slots that are taken."""
        return len(self._rows)

    @property
    def nbytes(self) -> CacheBytes:
        """Bytes held now."""
        held = {True: 0, False: 0}
        for row in self._rows:
            for shape, layer in zip(self.layers, row.layers, strict=True):
                held[shape.is_sliding] += layer.tokens.nbytes
        return CacheBytes(full=held[False], sliding=held[True])

    @property
    def peak_nbytes(self) -> CacheBytes:
        """The most bytes held at once, all kinds together, since the cache was made."""
        return self._peak

    def reserve(self, slot: int, length: int, new: int) -> RowStorage:
        """Make room for `new` tokens behind the `length` that the row has.

        Drops what no later token can see. What a token at `length` sees stays as it was, so that a pass that fails can
        be tried again.
        """
        row = self._rows[slot]
        if row.ready != (length, new):
            row.plans.clear()
            for shape, layer in zip(self.layers, row.layers, strict=True):
                self._make_room(shape, layer, length, new)
            row.ready = (length, new)
            now = self.nbytes
            if now.total > self._peak.total:
                self._peak = now
        return row

    def _make_room(self, shape: LayerShape, layer: LayerStorage, length: int, new: int) -> None:
        dropped = max(layer.dropped, shape.reach.dropped(length))
        held = length - dropped
        capacity = self._capacity(shape.reach, held + new)
        gone = dropped - layer.dropped
        if gone == 0 and capacity == layer.capacity:
            return
        sink = min(shape.reach.sink, held)
        kept = layer.tokens[:, :, sink + gone : held + gone]  # nothing, where a row is made to look read
        if capacity == layer.capacity:
            target, kept = layer.tokens, kept.clone()  # it overlaps with where it goes
        else:
            target = self._empty(shape, capacity)
            first = layer.tokens[:, :, :sink]
            target[:, :, : first.shape[2]] = first
        target[:, :, sink : sink + kept.shape[2]] = kept
        layer.tokens, layer.dropped = target, dropped

    def _capacity(self, reach: Reach, needed: int) -> int:
        """Multiples of the granularity, but not more than a reach and a canvas, as long as that is enough."""
        rounded = rounded_up(needed, GRANULARITY)
        if reach.past is None:
            return rounded
        most = max(needed, reach.sink + reach.past + self.canvas_length)
        return min(rounded, rounded_up(most, KEY_MULTIPLE))

    def _empty(self, shape: LayerShape, capacity: int) -> torch.Tensor:
        """Zeros: what is masked must still be a number, because 0 · NaN is NaN."""
        return torch.zeros(2, shape.heads, capacity, shape.width, dtype=self.dtype, device=self.device)
