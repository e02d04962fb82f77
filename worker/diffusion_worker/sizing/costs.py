"""What our engines keep in memory besides weights. Each number says where it comes from; another engine has others."""

from dataclasses import dataclass, replace
from enum import StrEnum

from diffusion_worker.inspect.facts import Family

_MIB = 1024**2
# Python, torch and Triton of an idle worker with a model of 1 MB on a CPU: 626 MiB of proportional set size, 436 of
# them anonymous memory, 190 of libraries' files (three processes, Triton 2.51, torch 2.13). The rest: malloc's arenas.
CPU_PROCESS_BYTES = 768 * _MIB
PREFILL_CHUNK = 512  # tokens of one row's prompt in one pass; a longer one lets the others step in between
PREFILL_ROWS = 4  # so many chunks in one pass when no row runs: more would take memory, and no less time
SCORED_ROWS = (
    8  # texts that are scored at once when nothing else runs; fewer tokens are lost when a request comes in between
)
SCORED_TOKENS = 512  # of all of them, in one pass: as long as it may keep a request waiting
SCORED_TOKENS_BESIDE = 128  # of one text while requests run, which each such pass holds up
SCORED_LOGITS = 2**26  # numbers of a pass: 256 MiB in float32
MASK_PASS_TOKENS = 8192  # of one pass of a mask model, padding included
MASK_PREDICTIONS = 512  # positions whose logits are in memory at a time
MASK_HORIZON = 512  # tokens of the answer that a mask model's pass sees, unless the block alone is longer
CPU_TILE = 1 << 17  # numbers that a sampler works on at a time: what stays in a core's second-level cache
CPU_NUCLEUS_TILE = 1 << 18
CPU_LAYER_TILE = 1 << 15  # the same of a layer's gelu, which has more temporaries
DRAW_BLOCK = 64  # tokens; a draw finds the block of the vocabulary first, then the token in it
GPU_TILE = 1 << 24  # 64 MiB in float32: large enough that no kernel waits for its launch
TOKEN_BYTES = 8  # int64
# Of each position of a canvas. Between steps: its token, what would be committed, whether it is final (engine/canvas.py).
CANVAS_BYTES = 2 * TOKEN_BYTES + 1
# While tokens are drawn: the most likely, the entropy, the random number, the token (samplers/categorical.py).
DRAWN_BYTES = 2 * TOKEN_BYTES + 4 + 4
# When the next canvas is made: these without the random number, how likely the token is, noise, the next canvas, which
# of it is final, and what would be committed (engine/diffusion.py).
ADVANCED_BYTES = 5 * TOKEN_BYTES + 4 + 4 + 1


class Arm(StrEnum):
    """Which engine runs the model."""

    DIFFUSION = "diffusion"
    AR = "ar"


class Device(StrEnum):
    """Where it runs."""

    CUDA = "cuda"
    CPU = "cpu"


class Layers(StrEnum):
    """Whose layers a pass goes through."""

    PACKED = "packed"  # ours: no row is padded, and each attends alone (models/attention.py)
    PADDED = "padded"  # transformers': a rectangle of rows × tokens (models/ar.py)
    WHOLE = "whole"  # transformers' too, over whole sequences and then over blocks (models/mask_diffusion)


@dataclass(frozen=True, kw_only=True)
class EngineCosts:
    """Habits of an engine on a device. Copies are float32 tensors [B, C, V], with C = 1 for the AR engine."""

    layers: Layers
    # Of all rows' logits while they become probabilities: in place, in tiles (samplers/categorical.py, predict).
    predict_copies: float = 1
    # Of all logits for log-likelihoods: the sum of exponentials takes one (samplers/logprobs.py, low_confidence.py).
    likelihood_copies: float = 0
    # Temporaries of a tile beside them: exponentials, and their products with the logarithms.
    predict_tiles: int = 2
    # Top-p of a tile: its probabilities, these sorted and their order in 64 bits (nucleus), while torch sorts rows longer
    # than 4,096: two copies of row and index, of the keys, and what CUB has of both (aten/src/ATen/native/cuda/SortStable.cu).
    nucleus_tiles: float = 1 + 1 + 2 + 2 * 2 + 1 + 1 + 2
    tile: int = GPU_TILE  # numbers
    nucleus_tile: int = GPU_TILE
    # Sliding layers drop the tokens that no later query sees (models/row_cache.py; models/cache.py keeps them).
    sliding_layers_drop: bool
    # Attention writes its scores down: under a mask, or with heads wider than 256, torch has no fused kernel for rows whose
    # heads share keys. On a CPU it has.
    writes_scores: bool = False
    # Feed-forward parts have a buffer for gelu(gate) beside gate and up; on a CPU in float32 it has so many numbers.
    gelu_tile: int | None = None
    # Encoders of images stay in memory.
    keeps_vision: bool
    # Taken before any tensor: the context of CUDA, torch's kernels, workspaces of cuBLAS; on CPU Python, torch and Triton.
    context_bytes: int = 1024 * _MIB
    # Of all that is not weights: what the allocator cannot use because pieces are of the wrong size.
    fragmentation: float = 0.05


_GPU = {
    Layers.PACKED: EngineCosts(layers=Layers.PACKED, sliding_layers_drop=True, writes_scores=True, keeps_vision=False),
    # Logits as they were, for log-probabilities and confidence, beside those that become probabilities; then without these.
    Layers.PADDED: EngineCosts(
        layers=Layers.PADDED, predict_copies=2, likelihood_copies=3, sliding_layers_drop=False, keeps_vision=True
    ),
    Layers.WHOLE: EngineCosts(
        layers=Layers.WHOLE, predict_copies=2, likelihood_copies=3, sliding_layers_drop=False, keeps_vision=True
    ),
}


def engine_costs(arm: Arm, device: Device, family: Family = Family.BLOCK_DIFFUSION) -> EngineCosts:
    """The habits of our engine for `arm` of a model of `family` on `device`."""
    of_diffusion = Layers.WHOLE if family is Family.MASKED_DIFFUSION else Layers.PACKED
    costs = _GPU[Layers.PADDED if arm is Arm.AR else of_diffusion]
    if device is Device.CPU:
        return replace(
            costs,
            writes_scores=False,
            gelu_tile=CPU_LAYER_TILE,
            tile=CPU_TILE,
            nucleus_tile=CPU_NUCLEUS_TILE,
            nucleus_tiles=1 + 1 + 2 + 1 + 1 / 4,  # then the sums of what is before each, and which are left out
            context_bytes=CPU_PROCESS_BYTES,
        )
    return costs
