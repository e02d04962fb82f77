"""From one canvas to the next: each row by its own sampler, after the pass that all rows shared."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, fields

import torch

from diffusion_worker.config import SamplerName
from diffusion_worker.engine.canvas import Canvas
from diffusion_worker.samplers import block_refinement, discrete_ddim, entropy_bound
from diffusion_worker.samplers.categorical import MIN_TEMPERATURE
from diffusion_worker.samplers.quota import quota
from diffusion_worker.samplers.randomness import uniforms
from diffusion_worker.samplers.schedules import next_index, temperature_at, time_grid
from diffusion_worker.samplers.settings import Settings


@dataclass(frozen=True, eq=False)
class StepPlan:
    """What the settings say about one denoising step of B rows; tensors are float32 [B]."""

    next_time_index: list[int]
    is_last: list[bool]
    temperature: torch.Tensor
    top_p: torch.Tensor
    greedy: torch.Tensor  # bool
    t: torch.Tensor  # time at the beginning of the step
    s: torch.Tensor  # and at its end
    entropy_bound: torch.Tensor
    stochasticity: torch.Tensor
    accept_threshold: torch.Tensor

    @classmethod
    def of(cls, settings: Sequence[Settings], canvases: Sequence[Canvas], device: torch.device) -> "StepPlan":
        """Plan of the next step of each canvas."""
        following: list[int] = []
        is_last: list[bool] = []
        rows: list[list[float]] = []
        for each, canvas in zip(settings, canvases, strict=True):
            grid = time_grid(each.schedule, each.max_denoising_steps)
            t = grid[canvas.time_index]
            following.append(
                next_index(grid, canvas.time_index, looks_like=canvas.looks_like if each.adaptive else None)
            )
            is_last.append(following[-1] == each.max_denoising_steps)
            temperature = temperature_at(t, temperature_min=each.temperature_min, temperature_max=each.temperature_max)
            rows.append(
                [
                    max(MIN_TEMPERATURE, temperature),
                    each.top_p,
                    each.greedy,
                    t,
                    grid[following[-1]],
                    each.entropy_bound,
                    each.stochasticity,
                    each.accept_threshold,
                ]
            )
        # One tensor: one transfer to the device for all of it.
        temperatures, top_p, greedy, *others = torch.tensor(rows, dtype=torch.float32, device=device).unbind(dim=1)
        return cls(following, is_last, temperatures, top_p, greedy.bool(), *others)


@dataclass(frozen=True, eq=False)
class Step:
    """What a sampler may look at; all [B, C] but `sample_keys` [B] and the parameters [B] of `StepPlan`."""

    x_t: torch.Tensor
    x_0: torch.Tensor  # drawn, or the most likely tokens of greedy rows
    accepted: torch.Tensor  # bool, so far
    entropy: torch.Tensor
    confidence: torch.Tensor  # probability of x_0
    noise: torch.Tensor  # uniform tokens
    sample_keys: torch.Tensor  # int64
    t: torch.Tensor
    s: torch.Tensor
    entropy_bound: torch.Tensor
    stochasticity: torch.Tensor
    accept_threshold: torch.Tensor
    vocab_size: int

    def rows(self, at: list[int]) -> "Step":
        """The step of some of the rows."""
        values = {field.name: getattr(self, field.name) for field in fields(self)}
        return Step(**{name: value if name == "vocab_size" else value[at] for name, value in values.items()})


Transition = Callable[[Step], tuple[torch.Tensor, torch.Tensor]]
"""The next canvas x_s [B, C] and which of its tokens are final, bool [B, C]."""


def advance(settings: Sequence[Settings], step: Step) -> tuple[torch.Tensor, torch.Tensor]:
    """The next canvases x_s [B, C] and which of their tokens are final, bool [B, C]."""
    groups: dict[Transition, list[int]] = {}
    for row, each in enumerate(settings):
        groups.setdefault(_transition_of(each), []).append(row)
    if len(groups) == 1:
        return next(iter(groups))(step)
    x_s, accepted = torch.empty_like(step.x_t), torch.empty_like(step.accepted)
    for transition, at in groups.items():
        x_s[at], accepted[at] = transition(step.rows(at))
    return x_s, accepted


def _transition_of(settings: Settings) -> Transition:
    match settings.name:
        case SamplerName.DISCRETE_DDIM:
            return _deterministic_ddim if settings.deterministic else _discrete_ddim
        case SamplerName.BLOCK_REFINEMENT:
            return _block_refinement
        case _:
            return _entropy_bound


def _entropy_bound(step: Step) -> tuple[torch.Tensor, torch.Tensor]:
    taken = entropy_bound.accept(step.entropy, step.entropy_bound)
    return entropy_bound.renoise(step.x_0, taken, step.noise), step.accepted


def _discrete_ddim(step: Step) -> tuple[torch.Tensor, torch.Tensor]:
    canvas_length = step.x_t.shape[1]
    weights = discrete_ddim.posterior(
        step.x_t,
        step.x_0,
        alpha_t=1 - step.t,
        alpha_s=1 - step.s,
        stochasticity=step.stochasticity,
        vocab_size=step.vocab_size,
    )
    u = uniforms(step.sample_keys, 2 * canvas_length)[:, canvas_length:]  # the first half has drawn x_0
    return discrete_ddim.draw_from(weights, x_t=step.x_t, x_0=step.x_0, noise=step.noise, u=u), step.accepted


def _deterministic_ddim(step: Step) -> tuple[torch.Tensor, torch.Tensor]:
    x_s = discrete_ddim.deterministic_step(step.x_t, step.x_0, entropy=step.entropy, alpha_s=1 - step.s)
    return x_s, step.accepted


def _block_refinement(step: Step) -> tuple[torch.Tensor, torch.Tensor]:
    accepted = block_refinement.accept(
        step.confidence,
        step.accepted,
        quota=quota(step.s, step.x_t.shape[1]),
        accept_threshold=step.accept_threshold,
    )
    return torch.where(step.accepted, step.x_t, torch.where(accepted, step.x_0, step.noise)), accepted
