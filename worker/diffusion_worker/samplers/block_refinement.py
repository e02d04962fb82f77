"""Block refinement: the most likely tokens are accepted step by step and kept; the rest of the block is tried again.

As diffusers' `BlockRefinementScheduler` does for LLaDA2-like models, here on uniform noise: a position that is not
accepted yet gets a new random token instead of a mask.
"""

import torch

_ROUNDING = 1e-4  # of a position; t comes from a float and must not make a whole quota one larger


def quota(t_next: torch.Tensor, canvas_length: int) -> torch.Tensor:
    """How many positions must be accepted at the end of a step to `t_next` [B]: ⌈(1 - t) · L⌉, int64 [B].

    On the linear grid of N steps this is ⌈(i + 1) L / N⌉ after step i; all L at the end of any grid.
    """
    return torch.ceil((1 - t_next) * canvas_length - _ROUNDING).to(torch.int64)


def accept(
    confidence: torch.Tensor,
    accepted: torch.Tensor,
    *,
    quota: torch.Tensor,
    accept_threshold: torch.Tensor,
) -> torch.Tensor:
    """Which positions are accepted after this step: bool [B, C], all that were before among them.

    `confidence` [B, C] is the probability of each position's token, `accepted` bool [B, C] what was accepted before.
    New are the most likely open positions up to the `quota` [B], and all above `accept_threshold` [B].
    """
    open_confidence = confidence.masked_fill(accepted, torch.inf)  # first in order: they count towards the quota
    order = open_confidence.sort(dim=-1, descending=True, stable=True).indices
    position = torch.arange(confidence.shape[1], device=confidence.device).expand_as(order)
    rank = torch.zeros_like(position).scatter(-1, order, position)
    return accepted | (rank < quota[:, None]) | (confidence > accept_threshold[:, None])
