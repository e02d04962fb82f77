"""The published decoding loops of LLaDA and Fast-dLLM, for one row, on transformers' own models. Greedy.

Written from the papers (arXiv:2502.09992, arXiv:2505.22618) to compare with; two things are ours: Dream's predictions of
a block's first position are computed in every step (Fast-dLLM fixes that token in the first one), and the mask token
itself is never drawn.
"""

import copy
from dataclasses import dataclass
from typing import Any

import torch
from diffusion_worker.config import MaskCache
from transformers import DynamicCache

from tests.engine.mask_checkpoints import MASK


@dataclass(frozen=True)
class ReferenceLoop:
    """How to decode."""

    model: Any  # of transformers, causal by itself
    shift: int
    block_length: int
    steps: int  # of one block; divides its length
    threshold: float | None = None  # of the dynamic variant
    cache: MaskCache = MaskCache.NONE
    guidance_scale: float = 0.0

    @torch.no_grad()
    def generate(self, prompt: list[int], answer_length: int) -> list[int]:
        """The answer's tokens. The length is a multiple of the block's."""
        x = torch.tensor([prompt + [MASK] * answer_length])
        without_prompt = torch.tensor([[True] * len(prompt) + [False] * answer_length])
        for start in range(len(prompt), x.shape[1], self.block_length):
            end = start + self.block_length
            caches: dict[bool, DynamicCache] = {}
            while (x[0, start:end] == MASK).any():
                logits = self._logits(x, start, end, caches, conditional=True)
                if self.guidance_scale:
                    other = self._logits(x.masked_fill(without_prompt, MASK), start, end, caches, conditional=False)
                    logits = other + (self.guidance_scale + 1) * (logits - other)
                logits[:, MASK] = -torch.inf
                self._fill(x[0, start:end], logits)
        return x[0, len(prompt) :].tolist()

    def _fill(self, block: torch.Tensor, logits: torch.Tensor) -> None:
        probability, x_0 = logits.softmax(dim=-1).max(dim=-1)
        confidence = probability.masked_fill(block != MASK, -1.0)
        best = confidence.argsort(descending=True, stable=True).tolist()
        if self.threshold is None:
            chosen = best[: self.block_length // self.steps]
        else:
            chosen = best[:1] + [at for at in best[1:] if confidence[at] > self.threshold]
        block[chosen] = x_0[chosen]

    def _logits(
        self, x: torch.Tensor, start: int, end: int, caches: dict[bool, DynamicCache], *, conditional: bool
    ) -> torch.Tensor:
        """Logits [W, V] of the block."""
        begin = start - self.shift
        if conditional not in caches:
            cache = DynamicCache()
            logits = self._forward(x, 0, cache)[begin : end - self.shift]
            if self.cache is not MaskCache.NONE:
                caches[conditional] = _without(cache, begin, end if self.cache is MaskCache.DUAL else x.shape[1])
            return logits
        last = end if self.cache is MaskCache.DUAL else x.shape[1]
        hidden = self._forward(x[:, begin:last], begin, copy.deepcopy(caches[conditional]))
        return hidden[: end - start]

    def _forward(self, x: torch.Tensor, first_position: int, cache: DynamicCache) -> torch.Tensor:
        keys = x.shape[1] + cache.get_seq_length()
        positions = torch.arange(first_position, first_position + x.shape[1])[None]
        mask = torch.zeros(1, 1, x.shape[1], keys)
        logits: torch.Tensor = self.model(input_ids=x, attention_mask=mask, position_ids=positions, cache=cache).logits
        return logits[0]


def _without(cache: DynamicCache, begin: int, end: int) -> DynamicCache:
    for layer in cache.layers:
        layer.keys = torch.cat([layer.keys[:, :, :begin], layer.keys[:, :, end:]], dim=2)
        layer.values = torch.cat([layer.values[:, :, :begin], layer.values[:, :, end:]], dim=2)
    return cache
