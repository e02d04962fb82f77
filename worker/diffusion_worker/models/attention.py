"""Attention of a pass over rows of different lengths: row by row, each over exactly the keys that it sees.

No row is padded to another's length, and no row's result depends on another. The new tokens of all rows stand packed,
one row behind the other: [T, …] with T = Σ tokens.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import lru_cache

import torch
from torch.nn.functional import scaled_dot_product_attention

from diffusion_worker.models.row_cache import KEY_MULTIPLE, LayerStorage, Reach, RowCache, rounded_up


@dataclass(frozen=True)
class _View:
    """How one row uses the storage of the layers of one reach, in one pass."""

    write_at: int
    write_end: int
    hidden_until: int  # stored tokens before this index are hidden,
    first_stays: bool  # except the very first
    read_end: int
    mask: torch.Tensor | None  # [Q or 1, K], 0 or -inf
    is_causal: bool


@dataclass(frozen=True)
class _RowPass:
    tokens: slice  # of the packed ones
    storage: list[LayerStorage]
    views: dict[Reach, _View]

    def write(self, layer: int, view: _View, k: torch.Tensor, v: torch.Tensor) -> None:
        """Store this row's part of k and v [T, Hk, D]."""
        new = self.storage[layer].tokens[:, :, view.write_at : view.write_end]
        new[0] = k[self.tokens].transpose(0, 1)
        new[1] = v[self.tokens].transpose(0, 1)


class AttentionPass:
    """One pass: `lengths[i]` tokens are in the cache for row i, and `counts[i]` new ones follow them.

    A causal pass is the encoder's: its keys and values stay. In the other, the decoder's, every new token (the canvas)
    sees all of them and what the last committed token's successor sees. `visible_from[i]` hides the tokens before that
    index, except the first, from row i; the same slot may take part more than once.
    """

    def __init__(
        self,
        cache: RowCache,
        slots: Sequence[int],
        lengths: Sequence[int],
        counts: Sequence[int],
        *,
        causal: bool,
        visible_from: Sequence[int] | None = None,
    ) -> None:
        self._shapes = cache.layers
        reaches = {shape.reach: layer for layer, shape in enumerate(cache.layers)}
        self._rows = []
        start = 0
        for i, (slot, length, count) in enumerate(zip(slots, lengths, counts, strict=True)):
            storage = cache.reserve(slot, length, count)
            hidden = visible_from[i] if visible_from is not None else 0
            views = {
                reach: _view(reach, storage[layer], length, count, causal=causal, hidden=hidden, like=cache)
                for reach, layer in reaches.items()
            }
            self._rows.append(_RowPass(slice(start, start + count), storage, views))
            start += count

    def store(self, layer: int, k: torch.Tensor, v: torch.Tensor) -> None:
        """Only store k and v [T, Hk, D]: all that the encoder's last layer is for."""
        for row in self._rows:
            row.write(layer, row.views[self._shapes[layer].reach], k, v)

    def attend(self, layer: int, q: torch.Tensor, k: torch.Tensor, v: torch.Tensor) -> torch.Tensor:
        """Store k and v [T, Hk, D]; returns what each query of q [T, Hq, D] gathers, [T, Hq · D]. No scaling."""
        gathered = torch.empty_like(q)
        for row in self._rows:
            view = row.views[self._shapes[layer].reach]
            row.write(layer, view, k, v)  # at once: the same slot may be there again, with another canvas
            keys, values = _visible(row.storage[layer].tokens, view)
            row_gathers = scaled_dot_product_attention(
                q[row.tokens].transpose(0, 1)[None],
                keys[None],
                values[None],
                attn_mask=view.mask,
                is_causal=view.is_causal,
                scale=1.0,
                enable_gqa=True,
            )
            gathered[row.tokens] = row_gathers[0].transpose(0, 1)
        return gathered.view(len(q), -1)


def _visible(stored: torch.Tensor, view: _View) -> Iterator[torch.Tensor]:
    seen = stored[:, :, view.hidden_until : view.read_end]
    if view.first_stays:
        seen = torch.cat([stored[:, :, :1], seen], dim=2)
    return iter(seen)


def _view(
    reach: Reach, storage: LayerStorage, length: int, count: int, *, causal: bool, hidden: int, like: RowCache
) -> _View:
    at = length - storage.dropped
    # Tokens 0 … sink-1 are stored at their own index, later ones `dropped` places further to the front.
    hidden_until = hidden if hidden <= reach.sink else max(reach.sink, hidden - storage.dropped)
    first_stays = hidden_until > 0 and (reach.sink > 0 or storage.dropped == 0)
    if first_stays and hidden_until == 1:
        hidden_until, first_stays = 0, False
    end = at + count
    keys = padded = end - hidden_until + first_stays
    mask, is_causal = None, False
    if causal and count > 1:
        everything = reach.past is None or length + count <= reach.sink + reach.past + 1
        is_causal = length == 0 and everything
        if not is_causal:
            mask = _causal_mask(reach, storage.dropped, length, count, like)
    elif like.device.type == "cpu":
        padded = min(rounded_up(keys, KEY_MULTIPLE), keys + storage.capacity - end)
        mask = _padding_mask(keys, padded, like.dtype)
    return _View(
        write_at=at,
        write_end=end,
        hidden_until=hidden_until,
        first_stays=first_stays,
        read_end=end + padded - keys,
        mask=mask,
        is_causal=is_causal,
    )


@lru_cache(maxsize=256)
def _padding_mask(keys: int, padded: int, dtype: torch.dtype) -> torch.Tensor | None:
    """Hides the keys behind the first `keys`: [1, K]. Softmax over a multiple of a vector's width is faster on a CPU."""
    if keys == padded:
        return None
    mask = torch.zeros(1, padded, dtype=dtype)
    mask[:, keys:] = -torch.inf
    return mask


def _causal_mask(reach: Reach, dropped: int, length: int, count: int, like: RowCache) -> torch.Tensor:
    """0 where a new token sees a stored one, else -inf: [Q, K]."""
    query = torch.arange(length, length + count, device=like.device)[:, None]
    index = torch.arange(length + count - dropped, device=like.device)
    position = torch.where(index < reach.sink, index, index + dropped)
    sees = position <= query
    if reach.past is not None:
        sees &= (query - position <= reach.past) | (position < reach.sink)
    return torch.zeros(sees.shape, dtype=like.dtype, device=like.device).masked_fill_(~sees, -torch.inf)
