"""The block of tokens that a diffusion row is denoising."""

from dataclasses import dataclass, field

import torch


@dataclass(frozen=True, eq=False)
class Canvas:
    """State of one canvas between two denoising steps; shapes are of one row."""

    index: int  # counts the canvases of the row from 0; part of the key of its random numbers
    tokens: torch.Tensor  # x_t [C], int64
    soft_embedding: torch.Tensor  # self-conditioning [C, d]; zero before the first step
    step: int = 0  # denoising steps done
    argmax_history: list[torch.Tensor] = field(default_factory=list)  # [C] each, on the CPU, latest last
