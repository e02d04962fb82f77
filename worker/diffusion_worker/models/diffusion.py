"""DiffusionGemma: our own forward pass over transformers' weights, with rows of different lengths in each pass.

Two passes: the causal *encoder* writes committed tokens into the cache; the bidirectional *decoder* reads it and
predicts the whole canvas. They share all weights. transformers' decoder takes self-conditioning as logits [B, C, V];
here it is the far smaller soft embedding [B, C, d].
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import torch
from pydantic import ValidationError
from torch.nn.functional import embedding
from transformers import DiffusionGemmaForBlockDiffusion

from diffusion_worker.config import SamplerName, SamplerSettings
from diffusion_worker.models.attention import AttentionPass
from diffusion_worker.models.checkpoint import Checkpoint, eos_token_ids, load_weights
from diffusion_worker.models.errors import UnsupportedCheckpointError
from diffusion_worker.models.gemma_layer import FeedForward, GemmaLayer
from diffusion_worker.models.layers import Linear, Norm, Rotary, tiles
from diffusion_worker.models.memory import in_one_piece, total_bytes
from diffusion_worker.models.row_cache import LayerShape, Reach, RowCache
from diffusion_worker.models.tokenizer import Tokenizer, load_tokenizer

_SLIDING = "sliding_attention"
_GELU = "gelu_pytorch_tanh"


@dataclass(frozen=True)
class FullAttentionLimit:
    """Makes full-attention layers see only the last `window` committed tokens and the first `sink`."""

    window: int
    sink: int = 0


class DiffusionModel:
    """A DiffusionGemma checkpoint."""

    def __init__(self, model: Any, tokenizer: Tokenizer, *, limit: FullAttentionLimit | None = None) -> None:
        """Takes the weights out of transformers' `model`, which cannot be used afterwards."""
        text = model.config.text_config
        self.tokenizer = tokenizer
        self.vocab_size: int = text.vocab_size
        self.hidden_size: int = text.hidden_size
        self.canvas_length: int = model.config.canvas_length
        self.max_sequence_length: int = text.max_position_embeddings
        self.eos_token_ids = eos_token_ids(model)
        self.sampler_defaults = _sampler_defaults(model.generation_config)
        self.device: torch.device = model.device
        self.dtype: torch.dtype = model.dtype
        self._softcap: float = text.final_logit_softcapping
        self._layer_types: list[str] = text.layer_types
        self._embed: torch.Tensor = model.lm_head.weight.detach()  # [V, d]
        self._embed_scale = float(torch.tensor(text.hidden_size**0.5, dtype=self.dtype))
        self._frequencies = _inverse_frequencies(model.model.decoder.rotary_emb)
        self._last_rotary: tuple[object, dict[str, Rotary]] = (None, {})
        self._encoder_scales = [float(layer.layer_scalar) for layer in model.model.encoder.language_model.layers]
        self._decoder_scales = [float(layer.layer_scalar) for layer in model.model.decoder.layers]
        model.model.encoder = None  # its weights are the decoder's; the images' tower goes as well
        decoder = model.model.decoder
        self._final_norm = Norm.of(decoder.norm)
        conditioning = decoder.self_conditioning
        self._conditioning = in_one_piece(FeedForward.of(conditioning))
        self._conditioning_norm = Norm.of(conditioning.pre_norm)
        self._conditioned_norm = Norm.with_weight(
            torch.ones(text.hidden_size, device=self.device), conditioning.post_norm.eps
        )
        self._layers: list[GemmaLayer] = []
        self._shapes = _layer_shapes(text, decoder.layers, limit)
        while len(decoder.layers) > 0:  # one by one: at no time are all weights held twice
            self._layers.append(in_one_piece(GemmaLayer.of(decoder.layers.pop(0))))
        self._embed = in_one_piece(self._embed)  # now that there is room for a second one
        parts = (self._conditioning, self._conditioning_norm, self._conditioned_norm, self._final_norm)
        self.weight_bytes = total_bytes(self._embed, *parts, *self._layers)
        longest_sum = max(self._conditioning.down.weight.shape[0], *(layer.longest_sum for layer in self._layers))
        self._rows_share_products = self.device.type != "cpu" or longest_sum <= Linear.MAX_EXACT_SUM

    def new_cache(self, *, max_rows: int) -> RowCache:
        """An empty cache for this model's layers."""
        return RowCache(
            max_rows=max_rows,
            layers=self._shapes,
            dtype=self.dtype,
            device=self.device,
            canvas_length=self.canvas_length,
        )

    @torch.inference_mode()
    def encode(self, cache: RowCache, slots: Sequence[int], lengths: Sequence[int], token_ids: list[list[int]]) -> None:
        """Write the keys and values of new tokens into the cache, after the `lengths` that each row has there."""
        if len(slots) > 1 and not self._rows_share_products:
            for slot, length, ids in zip(slots, lengths, token_ids, strict=True):
                self.encode(cache, [slot], [length], [ids])
            return
        counts = [len(ids) for ids in token_ids]
        attention = AttentionPass(cache, slots, lengths, counts, causal=True)
        packed = torch.tensor([token for ids in token_ids for token in ids], device=self.device)
        rotary = self._rotary_at(lengths, counts)
        hidden = self._run(self._embedded(packed), attention, rotary, self._layers[:-1], self._encoder_scales)
        last = len(self._layers) - 1
        self._layers[last].store(hidden, layer=last, rotary=rotary[self._layer_types[last]], attention=attention)

    @torch.inference_mode()
    def denoise(
        self,
        cache: RowCache,
        slots: Sequence[int],
        lengths: Sequence[int],
        canvas: torch.Tensor,
        soft_embedding: torch.Tensor,
        visible_from: Sequence[int] | None = None,
    ) -> torch.Tensor:
        """Logits [B, C, V] float32 for canvases x_t [B, C]; `soft_embedding` [B, C, d] is zero in a first step.

        `visible_from[i]` hides the committed tokens before that index, except the first, from row i: the unconditional
        branch of guidance. A slot may be there more than once. The result is the caller's to change.
        """
        B, C = canvas.shape
        if B > 1 and not self._rows_share_products:
            every = torch.empty(B, C, self.vocab_size, device=self.device)
            for i in range(B):
                every[i] = self.denoise(
                    cache,
                    slots[i : i + 1],
                    lengths[i : i + 1],
                    canvas[i : i + 1],
                    soft_embedding[i : i + 1],
                    None if visible_from is None else visible_from[i : i + 1],
                )[0]
            return every
        counts = [C] * B
        attention = AttentionPass(cache, slots, lengths, counts, causal=False, visible_from=visible_from)
        hidden = self._conditioned(canvas.reshape(-1), soft_embedding.reshape(B * C, -1))
        rotary = self._rotary_at(lengths, counts)
        hidden = self._run(hidden, attention, rotary, self._layers, self._decoder_scales)
        logits = torch.mm(self._final_norm(hidden), self._embed.t()).float()
        for tile in tiles(logits):
            tile.mul_(1 / self._softcap).tanh_().mul_(self._softcap)
        return logits.view(B, C, -1)

    @torch.inference_mode()
    def soft_embedding(self, probs: torch.Tensor, out: torch.Tensor) -> None:
        """Self-conditioning for the next step of a row, into `out` [C, d]: the expected embedding under `probs` [C, V].

        Of one row: V is large, and the sum over it would depend on the number of rows (see Linear).
        """
        torch.mm(probs.to(self.dtype), self._embed, out=out)
        out.mul_(self._embed_scale)

    def no_soft_embedding(self) -> torch.Tensor:
        """Self-conditioning of a first step, [C, d]."""
        return torch.zeros(self.canvas_length, self.hidden_size, dtype=self.dtype, device=self.device)

    def _conditioned(self, canvas: torch.Tensor, soft_embedding: torch.Tensor) -> torch.Tensor:
        """What goes into the layers, [T, d], for tokens [T] and their self-conditioning [T, d]."""
        signal = self._conditioning(self._conditioning_norm(soft_embedding))
        return self._conditioned_norm(self._embedded(canvas).add_(signal))

    def _embedded(self, token_ids: torch.Tensor) -> torch.Tensor:
        return embedding(token_ids, self._embed).mul_(self._embed_scale)

    def _run(
        self,
        hidden: torch.Tensor,
        attention: AttentionPass,
        rotary: dict[str, Rotary],
        layers: Sequence[GemmaLayer],
        scales: Sequence[float],
    ) -> torch.Tensor:
        """The first layers over packed tokens [T, d]."""
        for i, layer in enumerate(layers):
            hidden = layer(hidden, layer=i, rotary=rotary[self._layer_types[i]], attention=attention, scale=scales[i])
        return hidden

    def _rotary_at(self, lengths: Sequence[int], counts: Sequence[int]) -> dict[str, Rotary]:
        """For the packed tokens of a pass; those of the last pass are kept, because a canvas has many steps."""
        key = (tuple(lengths), tuple(counts))
        if self._last_rotary[0] != key:
            self._last_rotary = (None, {})  # first: there need not be room for both
            ranges = [torch.arange(length, length + count) for length, count in zip(lengths, counts, strict=True)]
            positions = torch.cat(ranges).to(self.device)
            rotary = {kind: Rotary.at(positions, *frequencies) for kind, frequencies in self._frequencies.items()}
            self._last_rotary = (key, rotary)
        return self._last_rotary[1]


def load_diffusion_model(checkpoint: Checkpoint, *, limit: FullAttentionLimit | None = None) -> DiffusionModel:
    """Load a DiffusionGemma checkpoint; UnsupportedCheckpointError when it is something else."""
    if checkpoint.model_type != "diffusion_gemma":
        raise UnsupportedCheckpointError(
            f"{checkpoint.folder} holds a model of type {checkpoint.model_type or 'unknown'}; the diffusion engine "
            "serves diffusion_gemma, llada and Dream. Autoregressive models belong into spec.fallback"
        )
    tokenizer = load_tokenizer(checkpoint.folder)  # first: it is quick to find missing
    model = load_weights(checkpoint, DiffusionGemmaForBlockDiffusion)
    _check(checkpoint, model)
    return DiffusionModel(model, tokenizer, limit=limit)


def _check(checkpoint: Checkpoint, model: Any) -> None:
    """Refuse what transformers could run and our forward pass does not follow."""
    text = model.config.text_config
    if text.hidden_activation != _GELU:
        raise UnsupportedCheckpointError(
            f"{checkpoint.folder} has the activation {text.hidden_activation}; the engine has {_GELU} only"
        )
    if text.use_bidirectional_attention == "all":
        raise UnsupportedCheckpointError(
            f"{checkpoint.folder} has a bidirectional encoder (use_bidirectional_attention: all); the engine needs a "
            "causal one"
        )
    decoder, encoder = model.model.decoder, model.model.encoder.language_model
    shared = dict(encoder.named_parameters())
    for name, weight in decoder.named_parameters():
        if name in shared and shared[name] is not weight:
            raise UnsupportedCheckpointError(
                f"{checkpoint.folder} has different weights {name} in encoder and decoder; the engine needs tied ones"
            )
    if model.lm_head.weight is not decoder.embed_tokens.weight:
        raise UnsupportedCheckpointError(f"{checkpoint.folder} has an output layer that is not tied to its embedding")


def _layer_shapes(text: Any, layers: Any, limit: FullAttentionLimit | None) -> list[LayerShape]:
    """transformers' sliding cache keeps window - 1 tokens, all of which every canvas position sees."""
    reaches = {
        True: Reach(past=text.sliding_window - 1),
        False: Reach(past=None) if limit is None else Reach(past=limit.window, sink=limit.sink),
    }
    shapes = []
    for layer, kind in zip(layers, text.layer_types, strict=True):
        attention, is_sliding = layer.self_attn, kind == _SLIDING
        heads = attention.k_proj.weight.shape[0] // attention.head_dim
        shapes.append(
            LayerShape(heads=heads, width=attention.head_dim, is_sliding=is_sliding, reach=reaches[is_sliding])
        )
    return shapes


def _inverse_frequencies(module: Any) -> dict[str, tuple[torch.Tensor, float]]:
    """Of each kind of layer: [D/2] float32, and what cos and sin are multiplied by."""
    return {
        kind: (getattr(module, f"{kind}_inv_freq").float(), float(getattr(module, f"{kind}_attention_scaling")))
        for kind in module.layer_types
    }


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
