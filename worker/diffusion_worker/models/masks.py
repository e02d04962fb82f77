"""Who sees whom. All masks are bool, True where a query may look, `[B, 1, Q or 1, K]`."""

import torch


def causal_mask(positions: torch.Tensor, kv_length: int, window: int | None = None) -> torch.Tensor:
    """Queries at `positions` [B, Q] over keys 0 … K-1, each of its own row: [B, 1, Q, K].

    A `window` limits the view to the last `window` tokens, the query's own included.
    """
    query = positions[:, None, :, None]
    key = torch.arange(kv_length, device=positions.device)
    mask = key <= query
    return mask if window is None else mask & (key > query - window)
