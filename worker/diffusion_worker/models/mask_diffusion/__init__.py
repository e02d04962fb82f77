"""Mask-token diffusion models (LLaDA, Dream): fully bidirectional, and without canvases of their own.

Their checkpoints come with remote code, which is never run: `architectures` maps them onto the same layers in
transformers. `model` runs passes over rows of different lengths; `cache` is what a pass may leave for the next ones.
"""

from diffusion_worker.models.mask_diffusion.architectures import is_mask_model
from diffusion_worker.models.mask_diffusion.cache import BlockCache
from diffusion_worker.models.mask_diffusion.model import MaskModel, load_mask_model
from diffusion_worker.models.mask_diffusion.sequence import MaskedSequence

__all__ = ["BlockCache", "MaskModel", "MaskedSequence", "is_mask_model", "load_mask_model"]
