"""Where the canvases of a training sequence lie, and what each of them may see."""

from dataclasses import dataclass

import torch

from examples.train.models import CANVAS, WINDOW

CANVASES = 6
"""Canvases trained per sequence."""
ENCODED = 384
"""Tokens of a sequence that canvases may see before them; the last canvas may begin here."""
SEQUENCE = ENCODED + CANVAS

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


def lay_out(begins: torch.Tensor, documents: torch.Tensor, frequencies: dict[str, torch.Tensor]) -> Geometry:
    """Geometry of canvases that begin at `begins` [B, K] in sequences whose tokens belong to `documents` [B, L].

    A document is seen by its own tokens and canvases alone, as if it were the only one.
    """
    rows = begins.size(0)
    positions = (begins[:, :, None] + torch.arange(CANVAS)).view(rows, -1)
    of_canvas = documents.gather(1, begins)  # [B, K]
    cached = documents[:, :ENCODED]
    # As in transformers: the sliding cache keeps WINDOW − 1 tokens, and every position of the canvas sees all of them.
    near = begins[:, :, None] - (WINDOW - 1) + torch.arange(WINDOW - 1)
    own = cached.gather(1, near.clamp(min=0).view(rows, -1)).view(near.shape) == of_canvas[..., None]
    near_mask = torch.cat(((near >= 0) & own, torch.ones(rows, CANVASES, CANVAS, dtype=torch.bool)), -1)
    before = (torch.arange(ENCODED) < begins[..., None]) & (cached[:, None] == of_canvas[..., None])  # [B, K, E]
    block = torch.arange(CANVASES).repeat_interleave(CANVAS)
    same = (block[:, None] == block[None]).expand(rows, -1, -1)
    full_mask = torch.cat((before.repeat_interleave(CANVAS, 1), same), -1).unsqueeze(1)
    return Geometry(positions, near.clamp(min=0), near_mask, full_mask, rope_at(positions, frequencies))


def encoder_masks(documents: torch.Tensor) -> dict[str, torch.Tensor]:
    """What each of the encoder's positions sees in each kind of layer, [B, 1, E, E]."""
    cached, row = documents[:, :ENCODED], torch.arange(ENCODED)
    causal = (row[:, None] >= row[None]) & (cached[:, :, None] == cached[:, None])
    near = row[:, None] - row[None] < WINDOW
    return {"full_attention": causal.unsqueeze(1), "sliding_attention": (causal & near).unsqueeze(1)}
