"""Classifier-free guidance (arXiv:2207.12598, in the convention of LLaDA)."""

import torch


def guided(conditional: torch.Tensor, unconditional: torch.Tensor, *, guidance_scale: torch.Tensor) -> torch.Tensor:
    """logits = uncond + (1 + w)(cond - uncond) for logits [B, C, V] and w = `guidance_scale` [B].

    w = 0 is the conditional prediction itself; the engine then leaves the unconditional pass out.
    """
    return unconditional + (1 + guidance_scale[:, None, None]) * (conditional - unconditional)
