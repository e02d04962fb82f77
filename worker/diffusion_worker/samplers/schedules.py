"""The times of the denoising steps of a canvas, from 1 (all noise) to 0 (all text), and what follows from them."""

import math
from functools import lru_cache

from diffusion_worker.config import Schedule

TimeGrid = tuple[float, ...]


@lru_cache(maxsize=256)
def time_grid(schedule: Schedule, steps: int) -> TimeGrid:
    """Times t_0 = 1 > t_1 > … > t_N = 0 of N `steps`: step i takes the canvas from t_i to t_{i+1}.

    linear: t_i = 1 - i/N. cosine: t_i = 1 - sin(π/2 · i/N), whose step size falls as cos(π/2 · i/N): large steps
    while the canvas is coarse, small ones where single tokens are decided.
    """
    if steps < 1:
        raise ValueError(f"a time grid has at least 1 step, not {steps}")
    match schedule:
        case Schedule.LINEAR:
            return tuple((steps - i) / steps for i in range(steps + 1))
        case Schedule.COSINE:
            return (*(1 - math.sin(math.pi / 2 * i / steps) for i in range(steps)), 0.0)


def temperature_at(t: float, *, temperature_min: float, temperature_max: float) -> float:
    """Temperature of a step that begins at time t: T = t_min + (t_max - t_min) · t.

    On the linear grid this is transformers' `LinearTemperatureScheduleLogitsProcessor`: t_max at first,
    t_min + (t_max - t_min)/N in the last of N steps.
    """
    return temperature_min + (temperature_max - temperature_min) * t


def settled_time(*, changed: float, mean_entropy: float) -> float:
    """The time that a canvas looks like to the model: 1 before anything is known, 0 when all is decided.

    It is the larger of two guesses at the share of wrong positions: the share `changed` of positions whose most likely
    token is not what it was one step ago, and 1 - exp(-H̄), since exp(-H̄) is the chance of a typical token under
    predictions of mean entropy H̄ (nats).
    """
    return max(changed, -math.expm1(-mean_entropy))


def next_index(grid: TimeGrid, index: int, *, looks_like: float | None) -> int:
    """Index of the time that follows `grid[index]`: the next one, or one further on when the canvas is ahead of it.

    `looks_like` is the canvas's `settled_time`; None for a schedule that is not adaptive. A step never goes beyond
    what the canvas looks like, nor does it take more than half of the time that is left.
    """
    following = index + 1
    if looks_like is None:
        return following
    earliest = max(looks_like, grid[index] / 2)
    while following < len(grid) - 1 and grid[following + 1] >= earliest:
        following += 1
    return following
