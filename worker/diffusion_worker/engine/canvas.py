"""The blocks of tokens that diffusion rows are denoising."""

from collections.abc import Sequence
from dataclasses import dataclass

import torch


@dataclass(frozen=True)
class Canvas:
    """Where a row stands in its canvas between two denoising steps. The canvas itself is in `Canvases`."""

    index: int  # counts the canvases of the row from 0; part of the key of its random numbers
    step: int = 0  # denoising steps done
    time_index: int = 0  # on the time grid; the steps done, or more with an adaptive schedule
    unchanged_steps: int = 0  # last steps whose most likely tokens were those of the step before
    looks_like: float = 1.0  # settled_time after the last step


@dataclass(frozen=True, eq=False)
class CanvasState:
    """Canvases of B rows between two steps."""

    x_t: torch.Tensor  # tokens [B, C], int64
    accepted: torch.Tensor  # bool [B, C]; which of them are final (block_refinement)
    best: torch.Tensor  # what would be committed now [B, C], int64; -1 before the first step
    soft_embedding: torch.Tensor  # self-conditioning [B, C, d]; zero before the first step


class Canvases:
    """The canvases of all rows, at the index of their slot, so that a step over all rows copies nothing."""

    def __init__(self, *, no_soft_embedding: torch.Tensor) -> None:
        """For canvases of C tokens; `no_soft_embedding` [C, d] is what a first step gets. Room comes as slots are used."""
        canvas_length, _ = no_soft_embedding.shape
        self._state = CanvasState(
            x_t=torch.zeros(0, canvas_length, dtype=torch.int64, device=no_soft_embedding.device),
            accepted=torch.zeros(0, canvas_length, dtype=torch.bool, device=no_soft_embedding.device),
            best=torch.zeros(0, canvas_length, dtype=torch.int64, device=no_soft_embedding.device),
            soft_embedding=no_soft_embedding.new_zeros(0, *no_soft_embedding.shape),
        )

    @torch.inference_mode()
    def begin(self, slots: Sequence[int], noise: torch.Tensor) -> None:
        """Start new canvases from `noise` [B, C]."""
        missing = max(slots) + 1 - len(self._state.x_t)
        if missing > 0:
            self._state = _with_more_rows(self._state, missing)
        at = _index_of(slots)
        self._state.x_t[at] = noise
        self._state.accepted[at] = False
        self._state.best[at] = -1
        self._state.soft_embedding[at] = 0

    def read(self, slots: Sequence[int]) -> CanvasState:
        """The canvases in `slots`; views where these have no holes."""
        at = _index_of(slots)
        state = self._state
        return CanvasState(state.x_t[at], state.accepted[at], state.best[at], state.soft_embedding[at])

    def write(self, slots: Sequence[int], state: CanvasState) -> None:
        """Put the canvases back after a step."""
        at = _index_of(slots)
        self._state.x_t[at] = state.x_t
        self._state.accepted[at] = state.accepted
        self._state.best[at] = state.best
        self._state.soft_embedding[at] = state.soft_embedding

    @torch.inference_mode()
    def move(self, *, source: int, target: int) -> None:
        """A row has moved to another slot. It may not have begun a canvas."""
        if source < len(self._state.x_t):
            self.write([target], self.read([source]))


def _with_more_rows(state: CanvasState, count: int) -> CanvasState:
    parts = (state.x_t, state.accepted, state.best, state.soft_embedding)
    return CanvasState(*(torch.cat([part, part.new_zeros(count, *part.shape[1:])]) for part in parts))


def _index_of(slots: Sequence[int]) -> slice | list[int]:
    """Index of these slots into a tensor of all: a slice, which copies nothing, where they have no holes."""
    first = slots[0]
    if list(slots) == list(range(first, first + len(slots))):
        return slice(first, first + len(slots))
    return list(slots)
