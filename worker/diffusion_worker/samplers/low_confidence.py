"""Low-confidence remasking for models whose noise is a mask token (arXiv:2502.09992, LLaDA).

In each step every masked position is predicted; the most confident predictions are kept for good, and all others are
masked again. *Static*: as many are kept as the time grid says. *Dynamic*: besides, all whose confidence exceeds a
threshold, one at least (arXiv:2505.22618, Fast-dLLM).
"""

import torch

_ROUNDING = 1e-4  # of a position; t comes from a float and must not make a whole quota one larger


def quota(t_next: torch.Tensor, length: torch.Tensor) -> torch.Tensor:
    """How many of a block's `length` [B] positions are text at the end of a step to `t_next` [B]: ⌈(1 - t) · L⌉.

    Under LLaDA's process a position is still masked at time t with probability t. All L at the end of any grid.
    """
    return torch.ceil((1 - t_next) * length - _ROUNDING).to(torch.int64)


def confidence(logits: torch.Tensor, x_0: torch.Tensor) -> torch.Tensor:
    """Probability of tokens `x_0` [..., C] under `logits` [..., C, V], at temperature 1 whatever they were drawn at.

    So a threshold means the same at every temperature.
    """
    return (logits.gather(-1, x_0[..., None]).squeeze(-1) - logits.logsumexp(dim=-1)).exp()


def unmask(
    confidence: torch.Tensor,
    masked: torch.Tensor,
    *,
    length: torch.Tensor,
    quota: torch.Tensor,
    accept_threshold: torch.Tensor,
) -> torch.Tensor:
    """Which positions turn from masks into text in this step: bool [B, C], masked ones only.

    `confidence` [B, C] is that of each position's prediction; `masked` bool [B, C] holds the masks of blocks of
    `length` [B], with False behind their end. Taken are the most confident up to the `quota` [B] of the whole block, all above
    `accept_threshold` [B] (1: none), and at least one.
    """
    wanted = (quota - (length - masked.sum(dim=-1))).clamp(min=1)
    order = confidence.masked_fill(~masked, -torch.inf).sort(dim=-1, descending=True, stable=True).indices
    position = torch.arange(masked.shape[1], device=masked.device).expand_as(order)
    rank = torch.zeros_like(position).scatter(-1, order, position)
    return masked & ((rank < wanted[:, None]) | (confidence > accept_threshold[:, None]))
