"""Block refinement: the most likely tokens are accepted step by step and kept; the rest of the block is tried again.

As diffusers' `BlockRefinementScheduler` does for LLaDA2-like models, here on uniform noise: a position that is not
accepted yet gets a new random token instead of a mask.
"""

import torch

from diffusion_worker.samplers.quota import rank


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
    return accepted | (rank(open_confidence) < quota[:, None]) | (confidence > accept_threshold[:, None])
