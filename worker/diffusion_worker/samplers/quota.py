"""How many positions are decided at a time of the grid, and in which order: for samplers that go by certainty."""

import torch

_ROUNDING = 1e-4  # of a position; t comes from a float and must not make a whole quota one larger


def quota(t_next: torch.Tensor, length: torch.Tensor | int) -> torch.Tensor:
    """How many of `length` [B] positions are text at the end of a step to `t_next` [B]: ⌈(1 - t) · L⌉, int64 [B].

    On the linear grid of N steps this is ⌈(i + 1) L / N⌉ after step i; all L at the end of any grid. Under the process of
    LLaDA (arXiv:2502.09992) a position is still noise at time t with probability t.
    """
    return torch.ceil((1 - t_next) * length - _ROUNDING).to(torch.int64)


def rank(scores: torch.Tensor) -> torch.Tensor:
    """Place of each of `scores` [B, C] in its row, int64: 0 for the largest; of equal ones, the first comes first."""
    order = scores.sort(dim=-1, descending=True, stable=True).indices
    place = torch.arange(scores.shape[-1], device=scores.device).expand_as(order)
    return torch.zeros_like(order).scatter(-1, order, place)
