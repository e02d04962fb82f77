"""Low-confidence remasking for models whose noise is a mask token (arXiv:2502.09992, LLaDA).

In each step every masked position is predicted; the most confident predictions are kept for good, and all others are
masked again. *Static*: as many are kept as the time grid says. *Dynamic*: besides, all whose confidence exceeds a
threshold, one at least (arXiv:2505.22618, Fast-dLLM).
"""

import torch

from diffusion_worker.samplers.quota import rank


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
    place = rank(confidence.masked_fill(~masked, -torch.inf))
    return masked & ((place < wanted[:, None]) | (confidence > accept_threshold[:, None]))
