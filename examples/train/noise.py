"""Which positions of a canvas are replaced by random tokens in training, and how many."""

from dataclasses import dataclass

import torch

from examples.train.geometry import CANVASES
from examples.train.models import CANVAS
from examples.train.tokenizer import EOS, PAD, VOCABULARY_LIMIT

RISING_SHARE = 0.4
"""Share of canvases whose noise rises to the right: the sampler accepts certain tokens first, mostly from the left."""
MISTAKES_SHARE = 0.5
"""Share of canvases of which a part of the noise comes from the model itself."""


@dataclass(frozen=True)
class NoisyCanvas:
    """`tokens` and the boolean `corrupted`, both [B, K·C]."""

    tokens: torch.Tensor
    corrupted: torch.Tensor


def targets(tokens: torch.Tensor) -> torch.Tensor:
    """What the canvases [B, K·C] should say: behind the first end of turn comes padding, never the next document."""
    canvases = tokens.view(tokens.size(0), CANVASES, CANVAS)
    ended = (canvases == EOS).cumsum(-1) - (canvases == EOS).int() > 0
    return canvases.masked_fill(ended, PAD).view(tokens.shape)


def levels(rows: int, share: float) -> torch.Tensor:
    """Noise level (0–1) of each canvas [B, K] when `share` of the training is done, stratified over the batch.

    Low noise first, because the use of context is learned from clean neighbours; later tilted to high noise, where the
    sampler spends most of its steps. In the end one canvas in ten is fully random, as in the first step.
    """
    late = min(1.0, max(0.0, (share - 0.12) / 0.38))
    full, power = 0.02 + 0.08 * late, 0.4 + 0.9 * late
    count = rows * CANVASES
    u = (torch.randperm(count) + torch.rand(count)) / count
    partial = 1 - ((u - full) / (1 - full)).clamp(0, 1) ** power
    return torch.where(u < full, torch.ones(()), partial).view(rows, CANVASES)


def corrupt(clean: torch.Tensor, level: torch.Tensor) -> NoisyCanvas:
    """Uniform noise: each position of `clean` [B, K·C] becomes a random token with probability `level` [B, K]."""
    rising = (torch.rand(level.shape) < RISING_SHARE) & (level < 1)
    slope = torch.where(rising, 2 * torch.rand(level.shape), torch.zeros(()))
    across = ((torch.arange(CANVAS) + 0.5) / CANVAS - 0.5).repeat(CANVASES)
    chance = level.repeat_interleave(CANVAS, 1) + slope.repeat_interleave(CANVAS, 1) * across
    corrupted = torch.rand(clean.shape) < chance
    return NoisyCanvas(torch.where(corrupted, _random_like(clean), clean), corrupted)


def earlier_canvas(clean: torch.Tensor, noisy: NoisyCanvas, level: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    """A canvas [B, K·C] of an earlier, noisier step, and its level [B, K]. Its noise is drawn anew, as the sampler does."""
    before = level + (1 - level) * torch.rand(level.shape) * 0.5
    extra = ((before - level) / (1 - level + 1e-6)).repeat_interleave(CANVAS, 1)
    corrupted = noisy.corrupted | (torch.rand(clean.shape) < extra)
    return torch.where(corrupted, _random_like(clean), clean), before


def with_own_mistakes(tokens: torch.Tensor, corrupted: torch.Tensor, logits: torch.Tensor) -> torch.Tensor:
    """`tokens` [B, K·C] with a part of the `corrupted` ones drawn from the model's own prediction `logits` [B, K·C, V].

    The sampler accepts what the model predicted, and some of it is wrong: tokens that look right where they stand, unlike
    random ones. A model that has seen only random ones trusts them.
    """
    canvases = (tokens.size(0), CANVASES)
    share = torch.where(torch.rand(canvases) < MISTAKES_SHARE, 0.5 * torch.rand(canvases), torch.zeros(()))
    here = corrupted & (torch.rand(tokens.shape) < share.repeat_interleave(CANVAS, 1))
    drawn = (logits - torch.empty_like(logits).exponential_().log()).argmax(-1)  # Gumbel's way to draw
    return torch.where(here, drawn, tokens)


def _random_like(tokens: torch.Tensor) -> torch.Tensor:
    return torch.randint(0, VOCABULARY_LIMIT, tokens.shape)
