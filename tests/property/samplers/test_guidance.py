"""Classifier-free guidance leaves the prediction alone at 0 and moves away from the unconditional one above."""

import torch
from diffusion_worker.samplers.guidance import guide


def test_the_scale_extrapolates_by_row_in_the_place_of_the_conditional_prediction() -> None:
    conditional = torch.tensor([[[2.0, 0.0]], [[2.0, 0.0]]])
    unconditional = torch.tensor([[[1.0, 1.0]], [[1.0, 1.0]]])
    guide(conditional, unconditional, guidance_scale=torch.tensor([0.0, 0.5]).view(2, 1, 1))
    assert conditional.tolist() == [[[2.0, 0.0]], [[2.5, -0.5]]]
    assert unconditional.tolist() == [[[1.0, 1.0]], [[1.0, 1.0]]]
