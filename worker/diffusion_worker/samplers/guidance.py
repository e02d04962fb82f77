"""Classifier-free guidance (arXiv:2207.12598, in the convention of LLaDA)."""

import torch


def guide(conditional: torch.Tensor, unconditional: torch.Tensor, *, guidance_scale: torch.Tensor) -> None:
    """logits = uncond + (1 + w)(cond - uncond), in the place of `conditional` [..., V], with w = `guidance_scale`.

    In place, because logits are the largest tensors there are. w = 0 is the conditional prediction itself; the engine
    then leaves the unconditional pass out.
    """
    conditional.sub_(unconditional).mul_(1 + guidance_scale).add_(unconditional)
