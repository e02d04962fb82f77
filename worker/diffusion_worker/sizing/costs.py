"""What our engines keep in memory besides weights. Each number says where it comes from; another engine has others."""

from dataclasses import dataclass, replace
from enum import StrEnum

_MIB = 1024**2
# Python, torch and Triton of an idle worker with a model of 1 MB on a CPU: 626 MiB of proportional set size, 436 of
# them anonymous memory, 190 of libraries' files (three processes, Triton 2.51, torch 2.13). The rest: malloc's arenas.
CPU_PROCESS_BYTES = 768 * _MIB
PREFILL_CHUNK = 512  # tokens of one row's prompt in one pass; a longer one lets the others step in between
PREFILL_ROWS = 4  # so many chunks in one pass when no row runs: more would take memory, and no less time


class Arm(StrEnum):
    """Which engine runs the model."""

    DIFFUSION = "diffusion"
    AR = "ar"


class Device(StrEnum):
    """Where it runs."""

    CUDA = "cuda"
    CPU = "cpu"


@dataclass(frozen=True, kw_only=True)
class EngineCosts:
    """Habits of an engine on a device. Copies are float32 tensors [B, C, V], with C = 1 for the AR engine."""

    # Logits become probabilities in place, beside their logarithms; on a CPU in tiles (samplers/categorical.py, predict).
    predict_copies: float
    # Both branches' logits, and the terms of their sum, when all rows have guidance. Measured: 5.0.
    guidance_copies: float = 5
    # Top-p of one row, beside the probabilities of all: sorted, their order in 64 bits, sums, masks (nucleus).
    nucleus_copies: float = 7.25
    # Soft embeddings [B, C, d]: those of all slots, and those that a step makes (engine/canvas.py).
    soft_embedding_copies: int = 2
    # Sliding layers drop the tokens that no later query sees (models/row_cache.py; models/cache.py keeps them).
    sliding_layers_drop: bool
    # The canvas has its place in the cache, behind the committed tokens (models/row_cache.py).
    canvas_in_cache: bool
    # Storage grows in multiples of this many tokens.
    granularity: int = 64
    # Tokens of one row that enter the cache in one pass (engine/slots.py, PREFILL_CHUNK).
    prefill_chunk: int = 512
    # Attention goes row by row (models/attention.py); else over all rows, padded, with keys and values repeated to the
    # number of query heads, as transformers 5.24 does it under a mask (integrations/sdpa_attention.py).
    rows_attend_alone: bool
    # Attention writes its scores down: under a mask, or with heads wider than 256, torch has no fused kernel for rows whose
    # heads share keys. On a CPU it has.
    writes_scores: bool
    # Heads are normed and rotated in float32 (models/gemma_layer.py).
    float32_heads: bool
    # The encoder of images stays in memory.
    keeps_vision: bool
    # Taken before any tensor: the context of CUDA, torch's kernels, workspaces of cuBLAS; on CPU Python, torch and Triton.
    context_bytes: int
    # Of all that is not weights: what the allocator cannot use because pieces are of the wrong size.
    fragmentation: float = 0.05


_GPU = {
    Arm.DIFFUSION: EngineCosts(
        predict_copies=2,
        sliding_layers_drop=True,
        canvas_in_cache=True,
        rows_attend_alone=True,
        writes_scores=True,
        float32_heads=True,
        keeps_vision=False,
        context_bytes=1024 * _MIB,
    ),
    Arm.AR: EngineCosts(
        predict_copies=2,
        sliding_layers_drop=False,
        canvas_in_cache=False,
        rows_attend_alone=False,
        writes_scores=False,
        float32_heads=False,
        keeps_vision=True,
        context_bytes=1024 * _MIB,
    ),
}


def engine_costs(arm: Arm, device: Device) -> EngineCosts:
    """The habits of our engine for `arm` on `device`."""
    costs = _GPU[arm]
    if device is Device.CPU:
        return replace(costs, predict_copies=1, writes_scores=False, context_bytes=CPU_PROCESS_BYTES)
    return costs
