"""Where the canvases of a training sequence lie, and what each of them may see."""

from dataclasses import dataclass

import torch

from examples.train.models import CANVAS, WINDOW

CANVASES = 6
"""Canvases trained per sequence, one behind the other."""
SLACK = 64
"""The first canvas begins 1–64 tokens into the sequence, so that every alignment is seen."""
ENCODED = CANVASES * CANVAS
SEQUENCE = ENCODED + SLACK

Rope = dict[str, tuple[torch.Tensor, torch.Tensor]]
"""cos and sin per kind of layer, [.., L, 1, head_dim]."""


@dataclass(frozen=True)
class Geometry:
    """B sequences with K canvases of C tokens each.

    `positions` [B, K·C]; `near` [B, K, W−1] indices of the cached tokens a canvas sees in a sliding layer and `near_mask`
    [B, K, W−1+C]; `full_mask` [B, 1, K·C, E+K·C] for full attention over E cached tokens and the canvas itself.
    """

    positions: torch.Tensor
    near: torch.Tensor
    near_mask: torch.Tensor
    full_mask: torch.Tensor
    rope: Rope

    def head(self, rows: int) -> "Geometry":
        """The first `rows` sequences."""
        rope = {kind: (cos[:rows], sin[:rows]) for kind, (cos, sin) in self.rope.items()}
        return Geometry(self.positions[:rows], self.near[:rows], self.near_mask[:rows], self.full_mask[:rows], rope)


def rope_at(positions: torch.Tensor, frequencies: dict[str, torch.Tensor]) -> Rope:
    """Rotary angles at `positions` [.., L] for each kind of layer."""
    rope = {}
    for kind, frequency in frequencies.items():
        angles = positions[..., None].float() * frequency
        angles = torch.cat((angles, angles), -1).unsqueeze(-2)
        rope[kind] = (angles.cos(), angles.sin())
    return rope


def lay_out(first: torch.Tensor, frequencies: dict[str, torch.Tensor]) -> Geometry:
    """Geometry of sequences whose first canvases begin at `first` [B]."""
    rows = first.numel()
    begins = first[:, None] + torch.arange(CANVASES) * CANVAS  # [B, K]
    positions = (begins[:, :, None] + torch.arange(CANVAS)).view(rows, -1)
    # As in transformers: the sliding cache keeps WINDOW − 1 tokens, and every position of the canvas sees all of them.
    near = begins[:, :, None] - (WINDOW - 1) + torch.arange(WINDOW - 1)
    near_mask = torch.cat((near >= 0, torch.ones(rows, CANVASES, CANVAS, dtype=torch.bool)), -1)
    block = torch.arange(CANVASES).repeat_interleave(CANVAS)
    before = torch.arange(ENCODED) < begins.repeat_interleave(CANVAS, 1)[..., None]
    same = (block[:, None] == block[None]).expand(rows, -1, -1)
    full_mask = torch.cat((before, same), -1).unsqueeze(1)
    return Geometry(positions, near.clamp(min=0), near_mask, full_mask, rope_at(positions, frequencies))
