"""A canvas may be committed early when it is stable and confident."""

import pytest
from diffusion_worker.samplers.stopping import is_confident, is_stable


@pytest.mark.parametrize(
    ("unchanged_steps", "threshold", "stable"),
    [(0, 0, True), (0, 1, False), (1, 1, True), (2, 1, True), (1, 2, False), (2, 2, True)],
)
def test_a_canvas_is_stable_when_enough_steps_agree(unchanged_steps: int, threshold: int, stable: bool) -> None:
    assert is_stable(unchanged_steps, threshold) is stable


def test_a_canvas_is_confident_strictly_below_the_threshold() -> None:
    assert is_confident(0.0049, 0.005)
    assert not is_confident(0.005, 0.005)
