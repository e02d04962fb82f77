"""Muon for the hidden matrices, Adam for everything else, and the learning rate over the run."""

import torch
from torch import nn

MUON_RATE, ADAM_RATE, WEIGHT_DECAY = 0.02, 3e-3, 0.02


class MuonAdam(torch.optim.Optimizer):
    """Orthogonalised momentum (Jordan et al., 2024) for matrices and stacks of expert matrices; Adam for the rest."""

    def __init__(self, model: nn.Module) -> None:
        muon, adam = [], []
        for name, parameter in model.named_parameters():
            if "vision" in name:  # never trained: the stories have no pictures
                continue
            hidden_matrix = parameter.ndim >= 2 and not any(part in name for part in ("embed", "lm_head", "router"))
            (muon if hidden_matrix else adam).append(parameter)
        groups = [
            {"params": muon, "kind": "muon", "rate": MUON_RATE},
            {"params": adam, "kind": "adam", "rate": ADAM_RATE},
        ]
        super().__init__(groups, {})

    @torch.no_grad()
    def step(self, scale: float) -> None:  # type: ignore[override]
        """One update with all learning rates times `scale`."""
        for group in self.param_groups:
            update = _muon if group["kind"] == "muon" else _adam
            for parameter in group["params"]:
                if parameter.grad is not None:
                    update(parameter, self.state[parameter], group["rate"] * scale)


def _muon(parameter: torch.Tensor, state: dict[str, torch.Tensor], rate: float) -> None:
    momentum = state.setdefault("momentum", torch.zeros_like(parameter))
    momentum.lerp_(parameter.grad, 0.05)
    x = parameter.grad.lerp(momentum, 0.95)
    tall = x.size(-2) > x.size(-1)
    x = x.mT if tall else x
    x = x / (x.norm(dim=(-2, -1), keepdim=True) + 1e-7)
    for _ in range(5):  # Newton–Schulz towards the nearest orthogonal matrix
        gram = x @ x.mT
        x = 3.4445 * x + (-4.7750 * gram + 2.0315 * gram @ gram) @ x
    x = x.mT if tall else x
    size = max(1.0, parameter.size(-2) / parameter.size(-1)) ** 0.5
    parameter.mul_(1 - rate * WEIGHT_DECAY).add_(x, alpha=-rate * size)


def _adam(parameter: torch.Tensor, state: dict, rate: float) -> None:
    if not state:
        state.update(mean=torch.zeros_like(parameter), square=torch.zeros_like(parameter), steps=0)
    state["steps"] += 1
    mean = state["mean"].lerp_(parameter.grad, 0.1) / (1 - 0.9 ** state["steps"])
    square = state["square"].lerp_(parameter.grad.square(), 0.02) / (1 - 0.98 ** state["steps"])
    parameter.addcdiv_(mean, square.sqrt_() + 1e-8, value=-rate)


def learning_rate(share: float) -> float:
    """Short warm-up, flat, then linear to zero; `share` is the part of the steps already done (0–1)."""
    return min(1.0, share / 0.02 + 0.02, max(0.0, (1 - share) / 0.6))


def resumed_learning_rate(share: float) -> float:
    """The same for a run that goes on from a checkpoint, whose optimizer begins anew: from 0.7 linearly to zero."""
    return 0.7 * min(1.0, share / 0.02 + 0.02) * (1 - share)
