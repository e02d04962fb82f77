"""Drawing tokens from predicted distributions, with random numbers that are given."""

from dataclasses import dataclass

import torch


@dataclass(frozen=True)
class Prediction:
    """What the model thinks of every position, after temperature."""

    probs: torch.Tensor  # p [..., V], float32
    argmax: torch.Tensor  # [...], int64
    entropy: torch.Tensor  # H(p) [...], float32, in nats; NaN where the logits were


def predict(logits: torch.Tensor, temperature: torch.Tensor) -> Prediction:
    """Distributions of `logits` [B, C, V] at `temperature` [B]."""
    scaled = logits / temperature[:, None, None]
    probs = torch.softmax(scaled, dim=-1, dtype=torch.float32)
    return Prediction(
        probs=probs,
        argmax=scaled.argmax(dim=-1),
        entropy=torch.special.entr(probs).sum(dim=-1),  # Σ -p ln p, where an impossible token adds 0
    )


def nucleus(probs: torch.Tensor, top_p: torch.Tensor) -> torch.Tensor:
    """Keep the fewest most likely tokens whose mass reaches `top_p`, zero for the others; not renormalised.

    `probs` [B, C, V], `top_p` [B]. The most likely token always stays. See arXiv:1904.09751.
    """
    sorted_probs, order = probs.sort(dim=-1, descending=True, stable=True)
    mass_before = sorted_probs.cumsum(dim=-1) - sorted_probs
    kept = mass_before < top_p[:, None, None]
    kept[..., 0] = True
    return torch.zeros_like(probs).scatter(-1, order, torch.where(kept, sorted_probs, 0.0))


def draw(probs: torch.Tensor, u: torch.Tensor) -> torch.Tensor:
    """One token per position by inverting the distribution function at `u`: `probs` [B, C, V], `u` [B, C] in [0, 1).

    `probs` need not sum to 1. One number per position is enough; the usual way draws one for each token of the
    vocabulary. A token of probability 0 is never drawn.
    """
    cdf = probs.cumsum(dim=-1)
    at = u[..., None] * cdf[..., -1:]
    return torch.searchsorted(cdf, at, right=True).squeeze(-1).clamp(max=probs.shape[-1] - 1)


def sample(prediction: Prediction, *, u: torch.Tensor, top_p: torch.Tensor, greedy: torch.Tensor) -> torch.Tensor:
    """Tokens [B, C] from a prediction: the most likely for rows in `greedy` [B], else drawn at `u` within `top_p` [B].

    The nucleus costs a sort of the vocabulary, so only rows that ask for one pay for it.
    """
    probs = prediction.probs
    cut = torch.nonzero(top_p < 1, as_tuple=True)[0]
    if len(cut) > 0:
        probs = probs.clone()
        probs[cut] = nucleus(probs[cut], top_p[cut])
    return torch.where(greedy[:, None], prediction.argmax, draw(probs, u))
