"""What our engine keeps in memory besides weights. Each number has its source; another engine has other ones."""

from dataclasses import dataclass

_MIB = 1024**2


@dataclass(frozen=True, kw_only=True)
class EngineCosts:
    """Habits of an engine on a device."""

    # float32 tensors [B, C, V] alive at the peak of a denoising step, and of a decoding step with C = 1.
    logit_copies: float
    # Sliding layers drop the tokens that no later query sees.
    sliding_layers_drop: bool
    # Soft embeddings [B, C, d]: those of all slots, and those that a step makes.
    soft_embedding_copies: int = 2
    # Tokens of one row that enter the cache in one pass (engine/slots.py, PREFILL_CHUNK).
    prefill_chunk: int = 512
    # Keys and values are repeated to the number of query heads before attention: transformers 5.24 does it whenever there
    # is a mask (integrations/sdpa_attention.py, use_gqa_in_sdpa).
    repeats_kv: bool = True
    # Taken before any tensor: the context of CUDA with the kernels of torch, workspaces of cuBLAS.
    context_bytes: int
    # Of all that is not weights: what the allocator cannot use because pieces are of the wrong size (5–10 % with PyTorch's; the utilization that a user sets leaves room as well).
    fragmentation: float = 0.05


GPU = EngineCosts(logit_copies=4, sliding_layers_drop=True, context_bytes=1024 * _MIB)
CPU = EngineCosts(logit_copies=4, sliding_layers_drop=True, context_bytes=768 * _MIB)
