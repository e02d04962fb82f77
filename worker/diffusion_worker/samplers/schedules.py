"""How settings change over the denoising steps of a canvas."""


def linear_temperature(*, step: int, max_denoising_steps: int, temperature_min: float, temperature_max: float) -> float:
    """Temperature of denoising step `step` = 0, 1, …, N-1 of at most N.

    T = t_min + (t_max - t_min) · n/N with n = N - step steps left, this one included (transformers,
    `LinearTemperatureScheduleLogitsProcessor`): t_max at first, t_min + (t_max - t_min)/N in the last step.
    """
    n = max_denoising_steps - step
    return temperature_min + (temperature_max - temperature_min) * (n / max_denoising_steps)
