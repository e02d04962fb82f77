"""Drawing tokens from predicted distributions, with random numbers that are given.

A vocabulary is large, so this is work for the memory as much as for the processor: each function goes through [B, C, V]
in tiles, in as few passes as it can, and keeps one buffer of that size alive. On a CPU tiles stay in a core's cache; on
a GPU they keep temporaries small, which would else be as large as all logits.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import torch

from diffusion_worker.samplers.randomness import another
from diffusion_worker.sizing.costs import CPU_NUCLEUS_TILE, CPU_TILE, DRAW_BLOCK, GPU_TILE

MIN_TEMPERATURE = 1e-4  # below it logits / temperature may overflow, and the draw is the most likely token anyway
_TRIES = 8  # draws before a nucleus is computed in full
# A token e^50 times less likely than the likeliest counts as impossible: no float32 number in [0, 1) would draw it. More
# than tidiness: where a model is sure, much of the vocabulary had denormal probabilities, with which a CPU is slow, and
# the product with them took thirty times as long.
_LEAST_LOG = -50.0
_LEAST_EXP = 2e-22  # just above e^-50


@dataclass(frozen=True)
class Prediction:
    """What the model thinks of every position, after temperature."""

    probs: torch.Tensor  # p [..., V], float32
    argmax: torch.Tensor  # [...], int64
    entropy: torch.Tensor  # H(p) [...], float32, in nats; NaN where the logits were


def predict(logits: torch.Tensor, temperature: torch.Tensor) -> Prediction:
    """Distributions of `logits` [B, C, V] at `temperature` [B]. Float32 logits' memory becomes the probabilities'."""
    B, C, V = logits.shape
    logits = logits.to(torch.float32).contiguous()
    probs = logits.view(-1, V)
    temperatures = temperature.to(torch.float32).repeat_interleave(C)[:, None]
    argmax = torch.empty(B * C, dtype=torch.int64, device=logits.device)
    entropy = torch.empty(B * C, dtype=torch.float32, device=logits.device)
    for tile in _tiles(probs, on_cpu=CPU_TILE):
        x = probs[tile].div_(temperatures[tile])
        best, argmax[tile] = x.max(dim=-1)  # far faster than argmax on a CPU
        x = x.sub_(best[:, None]).clamp_(min=_LEAST_LOG)
        e = torch.threshold_(torch.exp(x), _LEAST_EXP, 0.0)
        Z = e.sum(dim=-1)
        entropy[tile] = Z.log() - torch.linalg.vecdot(e, x) / Z  # Σ -p ln p
        torch.div(e, Z[:, None], out=x)
    return Prediction(probs=logits, argmax=argmax.view(B, C), entropy=entropy.view(B, C))


def nucleus(probs: torch.Tensor, top_p: torch.Tensor) -> torch.Tensor:
    """Keep the fewest most likely tokens whose mass reaches `top_p`, zero for the others; not renormalised.

    `probs` [..., V], `top_p` [...]. The most likely token always stays; of equal ones, the first. See arXiv:1904.09751.
    """
    sorted_probs, order = probs.sort(dim=-1, descending=True, stable=True)
    kept = sorted_probs.cumsum(dim=-1).sub_(sorted_probs) < top_p[..., None]  # by the mass before each token
    kept[..., 0] = True
    return torch.zeros_like(probs).scatter_(-1, order, sorted_probs.masked_fill_(kept.logical_not_(), 0.0))


def draw(probs: torch.Tensor, u: torch.Tensor) -> torch.Tensor:
    """One token per position by inverting the distribution function at `u`: `probs` [..., V], `u` [...] in [0, 1).

    `probs` need not sum to 1. One number per position is enough; the usual way draws one for each token of the
    vocabulary. A token of probability 0 is never drawn.
    """
    V = probs.shape[-1]
    if V % DRAW_BLOCK:
        return _invert(probs, u)[0]
    blocks = probs.reshape(*probs.shape[:-1], V // DRAW_BLOCK, DRAW_BLOCK)
    block, u_in_block = _invert(blocks.sum(dim=-1), u)
    chosen = blocks.gather(-2, block[..., None, None].expand(*block.shape, 1, DRAW_BLOCK)).squeeze(-2)
    return block * DRAW_BLOCK + _invert(chosen, u_in_block)[0]


def sample(prediction: Prediction, *, u: torch.Tensor, top_p: torch.Tensor, greedy: torch.Tensor) -> torch.Tensor:
    """Tokens [B, C] from a prediction: the most likely for rows in `greedy` [B], else drawn at `u` within `top_p` [B]."""
    tokens = torch.where(greedy[:, None], prediction.argmax, draw(prediction.probs, u))
    for row in torch.nonzero((top_p < 1) & ~greedy, as_tuple=True)[0].tolist():
        for tile in _tiles(prediction.probs[row], on_cpu=CPU_NUCLEUS_TILE):
            tokens[row, tile] = _within_nucleus(
                tokens[row, tile], prediction.probs[row, tile], u[row, tile], top_p[row]
            )
    return tokens


def _within_nucleus(tokens: torch.Tensor, probs: torch.Tensor, u: torch.Tensor, top_p: torch.Tensor) -> torch.Tensor:
    """Draw again where the tokens [C], drawn from `probs` [C, V] at `u` [C], are not in the nucleus.

    Whether a token is in it shows without the sort of the vocabulary that the nucleus itself takes: by the mass of the
    tokens before it. Each try succeeds with probability ≥ top_p.
    """
    outside = _mass_before(probs, tokens) >= top_p
    for _ in range(_TRIES):
        position = outside.nonzero(as_tuple=True)[0]
        if len(position) == 0:
            return tokens
        u = another(u)
        left = probs[position]
        again = draw(left, u[position])
        tokens = tokens.index_put((position,), again)
        outside = outside.index_put((position,), _mass_before(left, again) >= top_p)
        del left  # the nucleus needs its room
    position = outside.nonzero(as_tuple=True)[0]
    within = nucleus(probs[position], top_p.expand(len(position)))
    return tokens.index_put((position,), draw(within, another(u)[position]))


def _mass_before(probs: torch.Tensor, tokens: torch.Tensor) -> torch.Tensor:
    """Mass [C] of the tokens that come before `tokens` [C] when `probs` [C, V] is sorted, most likely first."""
    p = probs.gather(-1, tokens[:, None])
    likelier = torch.where(probs > p, probs, 0.0).sum(dim=-1)
    is_equal = probs == p
    if int(is_equal.sum()) == len(tokens):
        return likelier
    index = torch.arange(probs.shape[-1], device=probs.device)
    return likelier + (is_equal & (index < tokens[:, None])).sum(dim=-1) * p.squeeze(-1)


def _invert(probs: torch.Tensor, u: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    """The token whose part of the distribution function holds `u`, and how far into that part it is, in [0, 1)."""
    cdf = probs.cumsum(dim=-1)
    total = cdf[..., -1]
    # Rounding may take u · total up to total, behind the last token that is possible.
    at = torch.minimum(u * total, torch.nextafter(total, torch.zeros_like(total)))[..., None]
    index = torch.searchsorted(cdf, at, right=True).clamp_(max=probs.shape[-1] - 1)
    end = cdf.gather(-1, index)
    start = torch.where(index > 0, cdf.gather(-1, (index - 1).clamp_(min=0)), 0.0)
    return index.squeeze(-1), ((at - start) / (end - start)).squeeze(-1)


def _tiles(x: torch.Tensor, *, on_cpu: int) -> Sequence[slice]:
    """Rows of [N, V] in pieces of so many numbers; on a GPU of as many as keep its memory busy, and no more."""
    rows = max(1, (on_cpu if x.device.type == "cpu" else GPU_TILE) // x.shape[1])
    return [slice(start, start + rows) for start in range(0, len(x), rows)]
