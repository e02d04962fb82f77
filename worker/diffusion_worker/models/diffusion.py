"""DiffusionGemma: transformers' weights and layers, with our cache, positions and masks per row.

Two passes: the causal *encoder* writes committed tokens into the cache; the bidirectional *decoder* reads it and
predicts the whole canvas. transformers' own decoder takes self-conditioning as logits [B, C, V]; here its inner modules
are called so that the far smaller soft embedding [B, C, d] can be kept between steps.
"""

from collections.abc import Sequence
from typing import Any

import torch
from pydantic import ValidationError
from transformers import DiffusionGemmaForBlockDiffusion

from diffusion_worker.config import SamplerName, SamplerSettings
from diffusion_worker.models.batch import TokenBatch
from diffusion_worker.models.cache import KVCache
from diffusion_worker.models.checkpoint import Checkpoint, eos_token_ids, load_weights
from diffusion_worker.models.errors import UnsupportedCheckpointError
from diffusion_worker.models.masks import canvas_mask, causal_mask
from diffusion_worker.models.tokenizer import Tokenizer, load_tokenizer


class DiffusionModel:
    """A DiffusionGemma checkpoint."""

    def __init__(self, model: Any, tokenizer: Tokenizer) -> None:
        text = model.config.text_config
        self.tokenizer = tokenizer
        self.vocab_size: int = text.vocab_size
        self.hidden_size: int = text.hidden_size
        self.canvas_length: int = model.config.canvas_length
        self.max_sequence_length: int = text.max_position_embeddings
        self.eos_token_ids = eos_token_ids(model)
        self.sampler_defaults = _sampler_defaults(model.generation_config)
        self.device: torch.device = model.device
        self._window = {"full_attention": None, "sliding_attention": text.sliding_window}
        self._layer_types: list[str] = text.layer_types
        self._softcap: float = text.final_logit_softcapping
        self._encoder = model.model.encoder.language_model
        self._decoder = model.model.decoder
        self._lm_head = model.lm_head

    @torch.inference_mode()
    def encode(self, cache: KVCache, slots: Sequence[int], lengths: Sequence[int], token_ids: list[list[int]]) -> None:
        """Write the keys and values of new tokens into the cache, after the `lengths` that each row has there."""
        batch = TokenBatch.of(token_ids, lengths, self.device)
        view = cache.view(slots, lengths)
        view.expect(batch.valid, batch.positions)
        masks = {kind: causal_mask(batch.positions, view.kv_length, window) for kind, window in self._window.items()}
        self._encoder(input_ids=batch.token_ids, attention_mask=masks, position_ids=batch.positions, cache=view)

    @torch.inference_mode()
    def denoise(
        self,
        cache: KVCache,
        slots: Sequence[int],
        lengths: Sequence[int],
        canvas: torch.Tensor,
        soft_embedding: torch.Tensor,
    ) -> torch.Tensor:
        """Logits [B, C, V] float32 for canvases x_t [B, C]; `soft_embedding` [B, C, d] is zero in a first step."""
        decoder = self._decoder
        view = cache.view(slots, lengths).freeze()
        length = torch.tensor(list(lengths), device=self.device)
        canvas_length = canvas.shape[1]
        positions = length[:, None] + torch.arange(canvas_length, device=self.device)
        masks = {
            kind: canvas_mask(length, view.kv_length, canvas_length, window) for kind, window in self._window.items()
        }
        hidden = decoder.self_conditioning(decoder.embed_tokens(canvas), soft_embedding)
        rotary = {kind: decoder.rotary_emb(hidden, positions, kind) for kind in set(self._layer_types)}
        for layer, kind in zip(decoder.layers, self._layer_types, strict=True):
            hidden = layer(
                hidden,
                position_embeddings=rotary[kind],
                attention_mask=masks[kind],
                position_ids=positions,
                cache=view,
            )
        logits: torch.Tensor = self._lm_head(decoder.norm(hidden)).to(torch.float32)
        logits.div_(self._softcap).tanh_().mul_(self._softcap)
        return logits

    @torch.inference_mode()
    def soft_embedding(self, probs: torch.Tensor) -> torch.Tensor:
        """Self-conditioning for the next step: the expected embedding [B, C, d] under `probs` [B, C, V]."""
        embed = self._decoder.embed_tokens
        soft: torch.Tensor = (probs.to(embed.weight.dtype) @ embed.weight) * embed.embed_scale.to(embed.weight.dtype)
        return soft

    def no_soft_embedding(self) -> torch.Tensor:
        """Self-conditioning of a first step, [C, d]."""
        return torch.zeros(
            self.canvas_length, self.hidden_size, dtype=self._decoder.embed_tokens.weight.dtype, device=self.device
        )


def load_diffusion_model(checkpoint: Checkpoint) -> DiffusionModel:
    """Load a DiffusionGemma checkpoint; UnsupportedCheckpointError when it is something else."""
    if checkpoint.model_type != "diffusion_gemma":
        raise UnsupportedCheckpointError(
            f"{checkpoint.folder} holds a model of type {checkpoint.model_type or 'unknown'}; the diffusion engine "
            "serves diffusion_gemma. Autoregressive models belong into spec.fallback"
        )
    tokenizer = load_tokenizer(checkpoint.folder)  # first: it is quick to find missing
    return DiffusionModel(load_weights(checkpoint, DiffusionGemmaForBlockDiffusion), tokenizer)


def _sampler_defaults(config: Any) -> SamplerSettings:
    """Settings that the checkpoint was made for: its generation_config.json, else transformers' defaults."""
    defaults = config._get_default_generation_params()
    given = {name: getattr(config, name) for name in defaults if getattr(config, name, None) is not None}
    values = defaults | given
    try:
        return SamplerSettings(
            name=SamplerName.ENTROPY_BOUND,
            max_denoising_steps=values["max_denoising_steps"],
            temperature_min=values["t_min"],
            temperature_max=values["t_max"],
            entropy_bound=values["sampler_config"].entropy_bound,
            stability_threshold=values["stability_threshold"],
            confidence_threshold=values["confidence_threshold"],
        )
    except ValidationError as error:
        raise UnsupportedCheckpointError(f"the checkpoint's generation_config.json cannot be used: {error}") from error
