"""Discrete diffusion with uniform noise on any time grid: D3PM's posterior, DDIM's, and what lies between.

Forward process (arXiv:2107.03006, uniform transitions): q(x_t | x_0) = α_t 1[x_t = x_0] + (1 - α_t)/K with α_t = 1 - t.
A step from t to s < t draws x_0 from the model and then x_s from one of the processes that have these marginals:

- DDPM, the posterior of D3PM's Markov chain: q(x_s | x_t, x_0) ∝ q(x_t | x_s) q(x_s | x_0);
- DDIM (arXiv:2010.02502, appendix A, with the largest σ): σ 1[x_s = x_t] + (1 - σ) 1[x_s = x_0],
  σ = (1 - α_s)/(1 - α_t). It draws no new noise: what stays noisy keeps the noise it has;
- their mixture (1 - η) DDIM + η DDPM with the `stochasticity` η. A mixture of two processes with the same marginals
  has these marginals too, so every η is a valid sampler.

Where x_t ≠ x_0, all of them turn to x_0 with the same probability (α_s - α_t)/(1 - α_t); η decides how much of the
rest is drawn anew. In the last step α_s = 1, and x_s = x_0.
"""

from dataclasses import dataclass

import torch

from diffusion_worker.samplers.quota import quota, rank


@dataclass(frozen=True)
class Posterior:
    """x_s as a mixture: of x_0, of x_t and of uniform noise. The weights [B, C] sum to 1."""

    clean: torch.Tensor
    stay: torch.Tensor
    noise: torch.Tensor


def posterior(
    x_t: torch.Tensor,
    x_0: torch.Tensor,
    *,
    alpha_t: torch.Tensor,
    alpha_s: torch.Tensor,
    stochasticity: torch.Tensor,
    vocab_size: int,
) -> Posterior:
    """Weights for canvases `x_t` and `x_0` [B, C] at 0 ≤ α_t < α_s ≤ 1, all [B], with a vocabulary of K = `vocab_size`."""
    a, b, eta = alpha_t[:, None], alpha_s[:, None], stochasticity[:, None]
    same = x_t == x_0
    noise = eta * (b - a) * (1 - b) / (b * (1 - a + a * vocab_size * same))
    clean = ((b - a) / (1 - a)).expand_as(noise)
    return Posterior(clean=clean, stay=1 - clean - noise, noise=noise)


def draw_from(
    posterior: Posterior, *, x_t: torch.Tensor, x_0: torch.Tensor, noise: torch.Tensor, u: torch.Tensor
) -> torch.Tensor:
    """The next canvas x_s [B, C]; `noise` [B, C] are uniform tokens, `u` [B, C] uniform in [0, 1)."""
    kept = torch.where(u < posterior.noise + posterior.stay, x_t, x_0)
    return torch.where(u < posterior.noise, noise, kept)


def deterministic_step(
    x_t: torch.Tensor, x_0: torch.Tensor, *, entropy: torch.Tensor, alpha_s: torch.Tensor
) -> torch.Tensor:
    """DDIM without random numbers: x_t stays at the least certain positions, all others take the most likely `x_0`.

    As many stay as are noise at time s on average, ⌊(1 - α_s) · C⌋. All [B, C] but `alpha_s` [B].
    """
    stays = x_t.shape[1] - quota(1 - alpha_s, x_t.shape[1])
    return torch.where(rank(entropy) < stays[:, None], x_t, x_0)
