"""Classifier-free guidance leaves the prediction alone at 0 and moves away from the unconditional one above."""

import torch
from diffusion_worker.samplers.guidance import guided

CONDITIONAL = torch.tensor([[[2.0, 0.0]], [[2.0, 0.0]]])
UNCONDITIONAL = torch.tensor([[[1.0, 1.0]], [[1.0, 1.0]]])


def test_the_scale_extrapolates_by_row() -> None:
    logits = guided(CONDITIONAL, UNCONDITIONAL, guidance_scale=torch.tensor([0.0, 0.5]))
    assert logits.tolist() == [[[2.0, 0.0]], [[2.5, -0.5]]]
