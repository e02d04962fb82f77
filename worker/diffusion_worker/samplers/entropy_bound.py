"""The entropy-bound sampler (arXiv:2505.24857) on uniform noise, as DiffusionGemma uses it.

Each step accepts the positions whose predictions are certain enough to be taken together, and gives all others a new
random token. Acceptance is decided anew in every step. Follows transformers' `EntropyBoundSampler` and
`StableAndConfidentStoppingCriteria`.
"""

from collections.abc import Sequence
from dataclasses import dataclass, fields, replace

import torch

from diffusion_worker.config import SamplerConfig, SamplerName
from diffusion_worker.samplers.errors import SamplerError


@dataclass(frozen=True)
class EntropyBoundSettings:
    """Settings of one model; all are set in DiffusionGemma's generation_config.json."""

    max_denoising_steps: int
    temperature_min: float
    temperature_max: float
    entropy_bound: float  # nats
    stability_threshold: int  # steps for which the most likely canvas must not change; 0: it may
    confidence_threshold: float  # nats; mean entropy of the canvas below which it may stop
    top_p: float = 1.0

    def overridden_by(self, config: SamplerConfig) -> "EntropyBoundSettings":
        """These settings where the resource sets none; SamplerError for another sampler or a rising temperature."""
        if config.name not in (None, SamplerName.ENTROPY_BOUND):
            raise SamplerError(f"there is no sampler {config.name}; this worker has entropy_bound")
        known = {field.name for field in fields(self)}
        given = {name: value for name, value in config.model_dump(include=known).items() if value is not None}
        settings = replace(self, **given)
        if settings.temperature_max < settings.temperature_min:
            raise SamplerError(
                f"the temperature falls from temperature.max to temperature.min, but max is {settings.temperature_max} "
                f"and min {settings.temperature_min}"
            )
        return settings


def accept(entropy: torch.Tensor, entropy_bound: float) -> torch.Tensor:
    """Which positions to take in this step: bool [B, C] for `entropy` [B, C].

    The k positions of lowest entropy with Σ H_i - max H_i ≤ bound: a bound on their mutual information, so that
    drawing them independently is nearly right. The most certain position is always accepted.
    """
    sorted_entropy, order = entropy.sort(dim=-1, stable=True)
    accepted = sorted_entropy.cumsum(dim=-1) - sorted_entropy <= entropy_bound
    accepted[:, 0] = True
    return torch.zeros_like(accepted).scatter(-1, order, accepted)


def renoise(sampled: torch.Tensor, accepted: torch.Tensor, noise: torch.Tensor) -> torch.Tensor:
    """The next canvas x_{t-1}: sampled tokens where accepted, else noise; all [B, C]."""
    return torch.where(accepted, sampled, noise)


def is_stable(argmax: torch.Tensor, history: Sequence[torch.Tensor], stability_threshold: int) -> bool:
    """Whether the most likely canvas [C] equals those of the last `stability_threshold` steps (`history`, latest last)."""
    if stability_threshold == 0:
        return True
    recent = history[-stability_threshold:]
    return len(recent) == stability_threshold and all(torch.equal(argmax, earlier) for earlier in recent)


def is_confident(mean_entropy: float, confidence_threshold: float) -> bool:
    """Whether the canvas is certain enough to stop, by the mean entropy over all its positions."""
    return mean_entropy < confidence_threshold
