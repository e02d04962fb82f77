"""A training pass over all canvases of a sequence at once, on the parameters of a transformers model.

The model's own forward takes one canvas per call. `largest_difference` compares the two.
"""

import torch
import torch.nn.functional as F
from transformers import DiffusionGemmaForBlockDiffusion

from examples.train import layers
from examples.train.geometry import CANVASES, ENCODED, SEQUENCE, Geometry, encoder_masks, lay_out, rope_at
from examples.train.models import CANVAS

KeysValues = list[tuple[torch.Tensor, torch.Tensor]]


def layer_weights(layer: torch.nn.Module) -> layers.Weights:
    """The parameters of one decoder layer under the names that `layers.py` uses."""
    attention, mlp, router, experts = layer.self_attn, layer.mlp, layer.router, layer.experts
    weights = {
        "attention_in": layer.input_layernorm.weight,
        "q": attention.q_proj.weight,
        "k": attention.k_proj.weight,
        "q_norm": attention.q_norm.weight,
        "k_norm": attention.k_norm.weight,
        "o": attention.o_proj.weight,
        "attention_out": layer.post_attention_layernorm.weight,
        "dense_in": layer.pre_feedforward_layernorm.weight,
        "gate": mlp.gate_proj.weight,
        "up": mlp.up_proj.weight,
        "down": mlp.down_proj.weight,
        "dense_out": layer.post_feedforward_layernorm_1.weight,
        "moe_in": layer.pre_feedforward_layernorm_2.weight,
        "moe_out": layer.post_feedforward_layernorm_2.weight,
        "layer_out": layer.post_feedforward_layernorm.weight,
        "router_scale": router.scale,
        "router": router.proj.weight,
        "expert_scale": router.per_expert_scale,
        "experts_in": experts.gate_up_proj,
        "experts_out": experts.down_proj,
    }
    if attention.v_proj is not None:
        weights["v"] = attention.v_proj.weight
    return weights


class FastForward:
    """Encoder over the sequence, decoder over its canvases."""

    def __init__(self, model: DiffusionGemmaForBlockDiffusion, *, compiled: bool) -> None:
        decoder = model.model.decoder
        self.embedding, self.norm = decoder.embed_tokens.weight, decoder.norm.weight
        own = decoder.self_conditioning
        self.conditioning = {
            "in": own.pre_norm.weight,
            "gate": own.gate_proj.weight,
            "up": own.up_proj.weight,
            "down": own.down_proj.weight,
        }
        self.weights = [layer_weights(layer) for layer in decoder.layers]
        self.kinds: list[str] = model.config.text_config.layer_types
        rotary = decoder.rotary_emb
        self.frequencies = {kind: getattr(rotary, f"{kind}_inv_freq").clone() for kind in set(self.kinds)}
        functions = (
            layers.encoder_layer,
            layers.full_layer,
            layers.sliding_layer,
            layers.embed,
            layers.logits,
            layers.token_loss,
        )
        if compiled:
            functions = tuple(torch.compile(function, dynamic=False) for function in functions)
        self._encoder_layer, self._full_layer, self._sliding_layer, self._embed, self._logits, self._loss = functions

    def encode(self, tokens: torch.Tensor, masks: dict[str, torch.Tensor]) -> tuple[torch.Tensor, KeysValues]:
        """Hidden states [B, E, H] and each layer's keys and values of `tokens` [B, E]; `masks` as `encoder_masks` makes them."""
        h = F.embedding(tokens, self.embedding) * self.embedding.size(1) ** 0.5
        rope = rope_at(torch.arange(tokens.size(1)), self.frequencies)
        cache: KeysValues = []
        for weights, kind in zip(self.weights, self.kinds, strict=True):
            h, k, v = self._encoder_layer(h, weights, *rope[kind], masks[kind])
            cache.append((k, v))
        return h, cache

    def embed(
        self, canvas: torch.Tensor, earlier: torch.Tensor | None = None, temperature: torch.Tensor | None = None
    ) -> torch.Tensor:
        """Decoder input of `canvas` [B, K·C], conditioned on the logits of an earlier pass if there was one."""
        return self._embed(canvas, earlier, temperature, self.embedding, self.conditioning)

    def decode(self, h: torch.Tensor, cache: KeysValues, geometry: Geometry) -> torch.Tensor:
        """Hidden states [B, K·C, H] of embedded canvases."""
        for weights, kind, (k, v) in zip(self.weights, self.kinds, cache, strict=True):
            rope = geometry.rope[kind]
            if kind == "full_attention":
                h = self._full_layer(h, weights, *rope, geometry.full_mask, k, v)
            else:
                h = self._sliding_layer(h, weights, *rope, geometry.near_mask, k, v, geometry.near)
        return h

    def logits(self, h: torch.Tensor) -> torch.Tensor:
        """Logits [B, L, V] of hidden states."""
        return self._logits(h, self.norm, self.embedding)

    def loss(self, h: torch.Tensor, target: torch.Tensor) -> torch.Tensor:
        """Cross-entropy per position [B, L]."""
        return self._loss(h, self.norm, self.embedding, target)


@torch.no_grad()
def largest_difference(model: DiffusionGemmaForBlockDiffusion) -> float:
    """Largest difference in logits between this pass and the model's own, with and without self-conditioning."""
    was_training = model.training
    model.eval()
    fast, temperature = FastForward(model, compiled=False), 0.6
    tokens = torch.randint(9, 2048, (2, SEQUENCE))
    # Two documents per row, the second from `start` on; canvases anywhere in both.
    start = torch.tensor([[0], [101]])
    documents = (torch.arange(SEQUENCE) >= start).long()
    begins = torch.tensor([[5, 69, 133, 197, 300, 384], [1, 64, 100, 102, 240, 380]])
    geometry = lay_out(begins, documents, fast.frequencies)
    canvas = torch.randint(9, 2048, geometry.positions.shape)
    _, cache = fast.encode(tokens[:, :ENCODED], encoder_masks(documents))
    plain = fast.logits(fast.decode(fast.embed(canvas), cache, geometry))
    tempered = torch.full((2, CANVASES * CANVAS, 1), temperature)
    conditioned = fast.logits(fast.decode(fast.embed(canvas, plain, tempered), cache, geometry))
    worst = 0.0
    for row in range(2):
        for k in range(CANVASES):
            here, one = slice(k * CANVAS, (k + 1) * CANVAS), slice(row, row + 1)
            first = start[row] if begins[row, k] > start[row] else 0
            arguments = {"input_ids": tokens[one, first : begins[row, k]], "decoder_input_ids": canvas[one, here]}
            expected = model(**arguments).logits
            again = model(**arguments, self_conditioning_logits=expected / temperature).logits
            worst = max(worst, (expected - plain[one, here]).abs().max().item())
            worst = max(worst, (again - conditioned[one, here]).abs().max().item())
    model.train(was_training)
    return worst
