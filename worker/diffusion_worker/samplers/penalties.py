"""Shifting single logits of some rows."""

from collections.abc import Sequence
from dataclasses import dataclass

import torch


@dataclass(frozen=True, eq=False)
class Shifts:
    """What to add to some of a row's logits, each at most once."""

    token_ids: torch.Tensor  # [n], int64
    amounts: torch.Tensor  # [n], float32


def shift_logits(logits: torch.Tensor, shifts: Sequence[Shifts | None]) -> torch.Tensor:
    """Add `shifts[i]` to row i of `logits` [B, V]; changes them in place and returns them.

    Rows without any cost nothing.
    """
    for row, shift in zip(logits, shifts, strict=True):
        if shift is not None:
            row.index_add_(0, shift.token_ids.to(row.device), shift.amounts.to(row.device, row.dtype))
    return logits
