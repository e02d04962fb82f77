"""The training pass computes what the transformers model computes."""

import torch

from examples.train.fast_forward import largest_difference
from examples.train.models import diffusion_model


def test_all_canvases_at_once_equal_the_models_own_forward() -> None:
    torch.manual_seed(0)
    assert largest_difference(diffusion_model(layers=2)) < 1e-4
