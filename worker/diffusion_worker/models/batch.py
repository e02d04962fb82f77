"""Rows of different lengths as one rectangle of tokens."""

from collections.abc import Sequence
from dataclasses import dataclass

import torch


@dataclass(frozen=True)
class TokenBatch:
    """New tokens of several rows, padded on the left so that each row's last token is in the last column."""

    token_ids: torch.Tensor  # [B, Q]
    positions: torch.Tensor  # [B, Q]; padding repeats the row's first position, so that it sees something
    valid: torch.Tensor  # [B, Q] bool

    @classmethod
    def of(cls, token_ids: Sequence[Sequence[int]], lengths: Sequence[int], device: torch.device) -> "TokenBatch":
        """Batch of rows that have `lengths` tokens in the cache already."""
        width = max(len(ids) for ids in token_ids)
        padding = [width - len(ids) for ids in token_ids]
        ids = [[0] * pad + list(row) for pad, row in zip(padding, token_ids, strict=True)]
        column = torch.arange(width, device=device)
        offset = torch.tensor(padding, device=device)[:, None]
        start = torch.tensor(list(lengths), device=device)[:, None]
        return cls(
            token_ids=torch.tensor(ids, device=device),
            positions=start + (column - offset).clamp(min=0),
            valid=column >= offset,
        )
