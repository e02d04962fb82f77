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


def canvas_mask(lengths: torch.Tensor, kv_length: int, canvas_length: int, window: int | None = None) -> torch.Tensor:
    """A canvas over [T cached tokens, C canvas tokens] of rows with `lengths` [B] tokens: [B, 1, 1, T + C].

    Every canvas position sees the whole canvas and, of the cached tokens, all or the last `window - 1`: transformers'
    sliding cache keeps just these. (vLLM measures the window from each query instead.)
    """
    key = torch.arange(kv_length, device=lengths.device)
    length = lengths[:, None]
    cached = key < length
    if window is not None:
        cached = cached & (key >= length - (window - 1))
    canvas = torch.ones(len(lengths), canvas_length, dtype=torch.bool, device=lengths.device)
    return torch.cat([cached, canvas], dim=-1)[:, None, None, :]
