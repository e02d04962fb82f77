"""The temperature falls in a straight line and is exact at both ends."""

from itertools import pairwise

import pytest
from diffusion_worker.samplers.schedules import linear_temperature
from hypothesis import given
from hypothesis import strategies as st

temperatures = st.floats(0.01, 2)


@given(temperatures, temperatures, st.integers(1, 100))
def test_linear_temperature(one: float, other: float, max_denoising_steps: int) -> None:
    low, high = sorted((one, other))
    line = [
        linear_temperature(
            step=step, max_denoising_steps=max_denoising_steps, temperature_min=low, temperature_max=high
        )
        for step in range(max_denoising_steps)
    ]
    assert line[0] == pytest.approx(high)
    assert line[-1] == pytest.approx(low + (high - low) / max_denoising_steps)
    assert all(later <= earlier for earlier, later in pairwise(line))
