"""How likely tokens are under predicted distributions."""

from dataclasses import dataclass

import torch

_LOWEST = -9999.0  # stands for an impossible token: JSON has no infinity


@dataclass(frozen=True)
class LogProbs:
    """Natural logarithms of probabilities, for one token per row and for the most likely ones in its place."""

    of_token: torch.Tensor  # [B], float32
    top: torch.Tensor  # [B, k], float32, best first
    top_token_ids: torch.Tensor  # [B, k], int64


def log_probs(logits: torch.Tensor, token_ids: torch.Tensor, *, top: int) -> LogProbs:
    """Of `token_ids` [B] and the `top` most likely tokens under `logits` [B, V]."""
    normaliser = logits.logsumexp(dim=-1, keepdim=True)
    best, best_ids = logits.topk(min(top, logits.shape[-1]), dim=-1)
    of_token = (logits.gather(-1, token_ids[:, None]) - normaliser)[:, 0]
    return LogProbs(
        of_token=of_token.clamp(min=_LOWEST), top=(best - normaliser).clamp(min=_LOWEST), top_token_ids=best_ids
    )
