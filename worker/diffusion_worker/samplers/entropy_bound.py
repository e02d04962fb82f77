"""The entropy-bound sampler (arXiv:2505.24857) on uniform noise, as DiffusionGemma uses it.

Each step accepts the positions whose predictions are certain enough to be taken together, and gives all others a new
random token. Acceptance is decided anew in every step. Follows transformers' `EntropyBoundSampler`.
"""

import torch


def accept(entropy: torch.Tensor, entropy_bound: torch.Tensor) -> torch.Tensor:
    """Which positions to take in this step: bool [B, C] for `entropy` [B, C] and `entropy_bound` [B].

    The k positions of lowest entropy with Σ H_i - max H_i ≤ bound: a bound on their mutual information, so that
    drawing them independently is nearly right. The most certain position is always accepted.
    """
    sorted_entropy, order = entropy.sort(dim=-1, stable=True)
    accepted = sorted_entropy.cumsum(dim=-1) - sorted_entropy <= entropy_bound[:, None]
    accepted[:, 0] = True
    return torch.zeros_like(accepted).scatter(-1, order, accepted)


def renoise(x_0: torch.Tensor, accepted: torch.Tensor, noise: torch.Tensor) -> torch.Tensor:
    """The next canvas x_s: sampled tokens x_0 where accepted, else noise; all [B, C]."""
    return torch.where(accepted, x_0, noise)
