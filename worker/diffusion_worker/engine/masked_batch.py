"""The rows of one step of a mask model, and what the model makes of their masks."""

from collections.abc import Iterable
from dataclasses import dataclass

import torch

from diffusion_worker.engine.canvas import Canvas
from diffusion_worker.engine.masked_answer import MaskedAnswer, MaskedBlock
from diffusion_worker.engine.transition import StepPlan
from diffusion_worker.samplers.randomness import Stream, row_key, uniforms
from diffusion_worker.samplers.settings import Settings


@dataclass(frozen=True, eq=False)
class MaskedBatch:
    """B rows, whose blocks of up to W positions have M masks in all. M comes in the order of rows and positions."""

    answers: list[MaskedAnswer]
    blocks: list[MaskedBlock]
    canvases: list[Canvas]
    settings: list[Settings]
    plan: StepPlan
    lengths: torch.Tensor  # of the blocks, int64 [B], on the CPU
    masked: torch.Tensor  # bool [B, W], on the CPU; False behind the end of a block
    row_of: torch.Tensor  # int64 [M]: the row that a mask is in
    u: torch.Tensor  # uniform numbers [M], float32, of the rows' own streams
    guidance_scale: torch.Tensor  # float32 [B]

    @classmethod
    def of(cls, answers: list[MaskedAnswer], device: torch.device) -> "MaskedBatch":
        """Batch of answers that have a block."""
        blocks = [answer.block for answer in answers if answer.block is not None]
        canvases = [answer.row.canvas for answer in answers if answer.row.canvas is not None]
        settings = [answer.row.settings for answer in answers if answer.row.settings is not None]
        if not len(blocks) == len(canvases) == len(settings) == len(answers):
            raise RuntimeError("a row of this runner needs settings and a block")
        lengths = torch.tensor([len(block.token_ids) for block in blocks])
        width = int(lengths.max())
        masked = torch.tensor([block.is_masked + [False] * (width - len(block.is_masked)) for block in blocks])
        keys = [
            row_key(seed=answer.row.seed, canvas=canvas.index, step=canvas.step, stream=Stream.SAMPLE)
            for answer, canvas in zip(answers, canvases, strict=True)
        ]
        on_device = masked.to(device)
        return cls(
            answers=answers,
            blocks=blocks,
            canvases=canvases,
            settings=settings,
            plan=StepPlan.of(settings, canvases, device),
            lengths=lengths,
            masked=masked,
            row_of=on_device.nonzero()[:, 0],
            u=uniforms(torch.tensor(keys, device=device), width)[on_device],
            guidance_scale=torch.tensor([each.guidance_scale for each in settings], device=device),
        )

    def masks_of(self, rows: Iterable[int]) -> list[torch.Tensor]:
        """Positions of the masks in the blocks of some rows, int64 [M_i] each."""
        return [self.masked[row].nonzero()[:, 0] for row in rows]


@dataclass(frozen=True, eq=False)
class Seen:
    """What is predicted at the masks of a batch, on the CPU."""

    token_ids: torch.Tensor  # int64 [B, W]; 0 where there is no mask
    confidence: torch.Tensor  # float64 [B, W]; 0 where there is no mask
    is_nan: list[bool]  # of each row: the predictions are not numbers

    @classmethod
    def of(cls, masked: torch.Tensor, predictions: torch.Tensor) -> "Seen":
        """From token, confidence and entropy, float64 [M, 3], at the M positions of `masked` [B, W]."""
        spread = torch.zeros(*masked.shape, 3, dtype=torch.float64)
        spread[masked] = predictions
        token_ids, confidence, entropy = spread.unbind(dim=-1)
        return cls(
            token_ids=token_ids.to(torch.int64),
            confidence=confidence,
            is_nan=entropy.isnan().any(dim=-1).tolist(),
        )
