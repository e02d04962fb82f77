"""Attention of a pass over rows of different lengths: row by row, each over exactly the keys that it sees.

No row is padded to another's length, and no row's result depends on another. The new tokens of all rows stand packed,
one row behind the other: [T, …] with T = Σ tokens.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import torch
from torch.nn.functional import scaled_dot_product_attention

from diffusion_worker.models.row_cache import LayerShape, LayerStorage, Reach, RowCache


@dataclass(frozen=True)
class _View:
    """How one row uses the storage of the layers of one reach, in one pass."""

    write_at: int
    end: int
    hidden_until: int  # stored tokens before this index are hidden,
    first_stays: bool  # except the very first
    mask: torch.Tensor | None  # [Q, K], 0 or -inf
    is_causal: bool


@dataclass(frozen=True)
class _RowPass:
    tokens: slice  # of the packed ones
    storage: list[LayerStorage]
    views: dict[Reach, _View]


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

    def attend(self, layer: int, q: torch.Tensor, k: torch.Tensor, v: torch.Tensor) -> torch.Tensor:
        """Store k and v [T, Hk, D]; returns what each query of q [T, Hq, D] gathers, [T, Hq · D]. No scaling."""
        gathered = [
            self._attend_row(self._shapes[layer], row, layer, q[row.tokens], k[row.tokens], v[row.tokens])
            for row in self._rows
        ]
        return gathered[0] if len(gathered) == 1 else torch.cat(gathered)

    @staticmethod
    def _attend_row(
        shape: LayerShape, row: _RowPass, layer: int, q: torch.Tensor, k: torch.Tensor, v: torch.Tensor
    ) -> torch.Tensor:
        view = row.views[shape.reach]
        stored = row.storage[layer].tokens
        new = stored[:, :, view.write_at : view.end]
        new[0].copy_(k.transpose(0, 1))
        new[1].copy_(v.transpose(0, 1))
        keys, values = _visible(stored, view)
        gathered = scaled_dot_product_attention(
            q.transpose(0, 1)[None],
            keys[None],
            values[None],
            attn_mask=view.mask,
            is_causal=view.is_causal,
            scale=1.0,
            enable_gqa=True,
        )
        return gathered[0].transpose(0, 1).reshape(len(q), -1)


def _visible(stored: torch.Tensor, view: _View) -> Iterator[torch.Tensor]:
    seen = stored[:, :, view.hidden_until : view.end]
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
    mask, is_causal = None, False
    if causal and count > 1:
        everything = reach.past is None or length + count <= reach.sink + reach.past + 1
        is_causal = length == 0 and everything
        if not is_causal:
            mask = _causal_mask(reach, storage.dropped, length, count, like)
    return _View(
        write_at=at,
        end=at + count,
        hidden_until=hidden_until,
        first_stays=first_stays,
        mask=mask,
        is_causal=is_causal,
    )


def _causal_mask(reach: Reach, dropped: int, length: int, count: int, like: RowCache) -> torch.Tensor:
    """0 where a new token sees a stored one, else -inf: [Q, K]."""
    query = torch.arange(length, length + count, device=like.device)[:, None]
    index = torch.arange(length + count - dropped, device=like.device)
    position = torch.where(index < reach.sink, index, index + dropped)
    sees = position <= query
    if reach.past is not None:
        sees &= (query - position <= reach.past) | (position < reach.sink)
    return torch.zeros(sees.shape, dtype=like.dtype, device=like.device).masked_fill_(~sees, -torch.inf)
