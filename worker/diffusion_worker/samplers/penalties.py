"""Shifting single logits of some rows."""

from collections.abc import Mapping, Sequence

import torch


def shift_logits(logits: torch.Tensor, shifts: Sequence[Mapping[int, float] | None]) -> torch.Tensor:
    """Add `shifts[i]`, from token id to amount, to row i of `logits` [B, V]; changes them in place and returns them.

    One scatter for all rows, of the size of their shifts: rows without any cost nothing.
    """
    entries = [(i, *entry) for i, shift in enumerate(shifts) if shift for entry in shift.items()]
    if not entries:
        return logits
    rows, token_ids, amounts = zip(*entries, strict=True)
    index = torch.tensor([rows, token_ids], device=logits.device)
    values = torch.tensor(amounts, dtype=logits.dtype, device=logits.device)
    return logits.index_put_((index[0], index[1]), values, accumulate=True)
