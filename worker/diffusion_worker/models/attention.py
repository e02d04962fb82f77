"""Attention of a pass over rows of different lengths: row by row, each over exactly the keys that it sees.

No row is padded to another's length, and no row's result depends on another. The new tokens of all rows stand packed,
one row behind the other: [T, …] with T = Σ tokens.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache

import torch
from torch.nn.functional import scaled_dot_product_attention

from diffusion_worker.models.row_cache import LayerStorage, Reach, RowCache
from diffusion_worker.sizing.cache import KEY_MULTIPLE, rounded_up


@dataclass(frozen=True)
class _Sight:
    """Where one row writes and reads in the storage of the layers of one reach, in one pass."""

    write_at: int
    write_end: int
    hidden_until: int  # stored tokens before this index are hidden,
    first_stays: bool  # except the very first
    read_end: int
    mask: torch.Tensor | None  # [Q, K] bool, or [1, K], 0 or -inf
    is_causal: bool


@dataclass(frozen=True)
class _View:
    """The same as views of one layer's storage."""

    new_keys: torch.Tensor  # [Q, Hk, D], to be written
    new_values: torch.Tensor
    seen: torch.Tensor  # [2, 1, Hk, K, D]: keys, values
    first: torch.Tensor | None  # the same of the first token, when it is not the first of those seen
    mask: torch.Tensor | None
    is_causal: bool

    @classmethod
    def of(cls, tokens: torch.Tensor, sight: _Sight) -> "_View":
        """Of a layer's `tokens` [2, Hk, capacity, D]."""
        new = tokens[:, :, sight.write_at : sight.write_end].transpose(1, 2)
        return cls(
            new_keys=new[0],
            new_values=new[1],
            seen=tokens[:, None, :, sight.hidden_until : sight.read_end],
            first=tokens[:, None, :, :1] if sight.first_stays else None,
            mask=sight.mask,
            is_causal=sight.is_causal,
        )

    def attend(self, q: torch.Tensor) -> torch.Tensor:
        """What each query of q [1, Hq, Q, D] gathers, in the same shape. No scaling."""
        seen = self.seen if self.first is None else torch.cat([self.first, self.seen], dim=3)
        return scaled_dot_product_attention(
            q, seen[0], seen[1], attn_mask=self.mask, is_causal=self.is_causal, scale=1.0, enable_gqa=True
        )


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
        self._counts = list(counts)
        hidden = [0] * len(slots) if visible_from is None else visible_from
        self._rows = [_plan(cache, *row, causal=causal) for row in zip(slots, lengths, counts, hidden, strict=True)]

    def store(self, layer: int, k: torch.Tensor, v: torch.Tensor) -> None:
        """Only store k and v [T, Hk, D]: all that the encoder's last layer is for."""
        for row, keys, values in zip(
            self._rows, torch.split(k, self._counts), torch.split(v, self._counts), strict=True
        ):
            row[layer].new_keys.copy_(keys)
            row[layer].new_values.copy_(values)

    def attend(self, layer: int, q: torch.Tensor, k: torch.Tensor, v: torch.Tensor) -> torch.Tensor:
        """Store k and v [T, Hk, D]; returns what each query of q [T, Hq, D] gathers, [T, Hq · D]. No scaling."""
        queries, keys, values = (torch.split(x, self._counts) for x in (q, k, v))
        gathered = torch.empty(q.shape, dtype=q.dtype, device=q.device)
        places = torch.split(gathered, self._counts)
        for row, query, new_keys, new_values, place in zip(self._rows, queries, keys, values, places, strict=True):
            view = row[layer]
            view.new_keys.copy_(new_keys)  # row by row: the same slot may be there again, with another canvas
            view.new_values.copy_(new_values)
            place.copy_(view.attend(query.transpose(0, 1)[None])[0].transpose(0, 1))
        return gathered.flatten(1)


def _plan(cache: RowCache, slot: int, length: int, count: int, hidden: int, *, causal: bool) -> list[_View]:
    """Views of all layers of a row. They stay as they are for all steps of a canvas, and so are kept.

    Those of a causal pass are not: no other pass is like it, and their masks are large.
    """
    row = cache.reserve(slot, length, count)
    plan: list[_View] | None = None if causal else row.plans.get(hidden)
    if plan is None:
        sights = {
            shape.reach: _sight(shape.reach, layer, length, count, causal=causal, hidden=hidden, like=cache)
            for shape, layer in zip(cache.layers, row.layers, strict=True)
        }
        plan = [
            _View.of(layer.tokens, sights[shape.reach]) for shape, layer in zip(cache.layers, row.layers, strict=True)
        ]
        if not causal:
            row.plans[hidden] = plan
    return plan


def _sight(
    reach: Reach, storage: LayerStorage, length: int, count: int, *, causal: bool, hidden: int, like: RowCache
) -> _Sight:
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
    return _Sight(
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
    """Whether a new token sees a stored one: bool [Q, K]."""
    query = torch.arange(length, length + count, device=like.device)[:, None]
    index = torch.arange(length + count - dropped, device=like.device)
    position = torch.where(index < reach.sink, index, index + dropped)
    sees = position <= query
    if reach.past is not None:
        sees &= (position >= query - reach.past) | (position < reach.sink)
    return sees
