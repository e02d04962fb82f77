"""One layer of DiffusionGemma, and how its weights come out of transformers' module."""

from dataclasses import dataclass
from typing import Any

import torch

from diffusion_worker.models.attention import AttentionPass
from diffusion_worker.models.layers import Experts, Linear, Norm, Rotary, gated_gelu, transposed


@dataclass(frozen=True)
class FeedForward:
    """down(gelu(gate x) · up x)."""

    gate_and_up: Linear
    down: Linear

    @classmethod
    def of(cls, module: Any) -> "FeedForward":
        """From transformers' MLP, or anything with the same three projections."""
        return cls(gate_and_up=Linear.of(module.gate_proj, module.up_proj), down=Linear.of(module.down_proj))

    def __call__(self, x: torch.Tensor) -> torch.Tensor:
        """[T, d] → [T, d]."""
        return self.down(gated_gelu(self.gate_and_up(x)))


@dataclass(frozen=True)
class Attention:
    """Projections into heads, and out of them."""

    into_heads: Linear  # queries, keys, and values unless they are the keys
    out_of_heads: Linear
    head_norm: Norm  # [heads of into_heads, D]
    query_heads: int
    key_heads: int
    values_are_keys: bool

    @classmethod
    def of(cls, module: Any) -> "Attention":
        """From transformers' attention. Layers without v_proj take the keys, before norm and rotation, as values."""
        width: int = module.head_dim
        projections = [module.q_proj, module.k_proj] + ([] if module.v_proj is None else [module.v_proj])
        query_heads, key_heads = (p.weight.shape[0] // width for p in (module.q_proj, module.k_proj))
        weights = [module.q_norm.weight.expand(query_heads, -1), module.k_norm.weight.expand(key_heads, -1)]
        if module.v_proj is not None:
            weights.append(torch.ones_like(weights[1]))  # values are normed without a weight
        return cls(
            into_heads=Linear.of(*projections),
            out_of_heads=Linear.of(module.o_proj),
            head_norm=Norm.with_weight(torch.cat(weights).detach(), module.q_norm.eps),
            query_heads=query_heads,
            key_heads=key_heads,
            values_are_keys=module.v_proj is None,
        )

    def __call__(self, x: torch.Tensor, *, layer: int, rotary: Rotary, attention: AttentionPass) -> torch.Tensor:
        """[T, d] → [T, d]."""
        turned, values = self._heads(x, rotary)
        gathered = attention.attend(layer, turned[:, : self.query_heads], turned[:, self.query_heads :], values)
        return self.out_of_heads(gathered)

    def store(self, x: torch.Tensor, *, layer: int, rotary: Rotary, attention: AttentionPass) -> None:
        """Only put the keys and values of x [T, d] into the cache."""
        turned, values = self._heads(x, rotary)
        attention.store(layer, turned[:, self.query_heads :], values)

    def _heads(self, x: torch.Tensor, rotary: Rotary) -> tuple[torch.Tensor, torch.Tensor]:
        """Queries and keys [T, Hq + Hk, D], normed and turned, and values [T, Hk, D], normed."""
        turning = self.query_heads + self.key_heads
        heads = self.into_heads(x).view(len(x), -1, self.head_norm.weight.shape[-1])
        direction = self.head_norm.direction(heads, consume=True)
        if self.values_are_keys:
            values = direction[:, self.query_heads :] * heads.shape[-1] ** 0.5
        direction.mul_(self.head_norm.weight)
        if not self.values_are_keys:
            values = direction[:, turning:]
        return rotary(direction[:, :turning]).to(x.dtype), values


@dataclass(frozen=True)
class GemmaLayer:
    """Attention, then a feed-forward network and experts side by side."""

    attention: Attention
    feed_forward: FeedForward
    experts: Experts
    input_norm: Norm
    post_attention_norm: Norm
    feed_forward_norm: Norm
    post_feed_forward_norm: Norm
    experts_norm: Norm
    post_experts_norm: Norm
    post_norm: Norm

    @property
    def longest_sum(self) -> int:
        """The largest K of its products."""
        products = (self.attention.into_heads, self.attention.out_of_heads, self.feed_forward.down)
        return max(*(product.weight.shape[0] for product in products), self.experts.down.shape[1])

    @classmethod
    def of(cls, module: Any) -> "GemmaLayer":
        """From transformers' layer. Weights are copied where they change their layout."""
        router, experts = module.router, module.experts
        router_weight = router.scale.detach() * router.scalar_root_size
        return cls(
            attention=Attention.of(module.self_attn),
            feed_forward=FeedForward.of(module.mlp),
            experts=Experts(
                router=Linear.of(router.proj),
                router_norm=Norm.with_weight(router_weight, router.eps),
                scale=router.per_expert_scale.detach().float(),
                gate_and_up=transposed(experts.gate_up_proj),
                down=transposed(experts.down_proj),
                top_k=router.config.top_k_experts,
            ),
            input_norm=Norm.of(module.input_layernorm),
            post_attention_norm=Norm.of(module.post_attention_layernorm),
            feed_forward_norm=Norm.of(module.pre_feedforward_layernorm),
            post_feed_forward_norm=Norm.of(module.post_feedforward_layernorm_1),
            experts_norm=Norm.of(module.pre_feedforward_layernorm_2),
            post_experts_norm=Norm.of(module.post_feedforward_layernorm_2),
            post_norm=Norm.of(module.post_feedforward_layernorm),
        )

    def __call__(
        self, hidden: torch.Tensor, *, layer: int, rotary: Rotary, attention: AttentionPass, scale: float
    ) -> torch.Tensor:
        """[T, d] → [T, d], in the same place; the output is multiplied by `scale`."""
        # No name for what is needed once: it would be in memory as long as the name is.
        hidden = self.post_attention_norm.add_to(
            hidden, self.attention(self.input_norm(hidden), layer=layer, rotary=rotary, attention=attention)
        )
        hidden = self.post_norm.add_to(hidden, self._feed_forward_and_experts(hidden))
        return hidden if scale == 1.0 else hidden.mul_(scale)

    def _feed_forward_and_experts(self, hidden: torch.Tensor) -> torch.Tensor:
        """The sum of both, each normed, [T, d]."""
        direction = self.feed_forward_norm.direction(hidden)
        dense = self.post_feed_forward_norm(self.feed_forward(self.feed_forward_norm.scale(direction, hidden.dtype)))
        mixed = self.experts(self.experts_norm.scale(direction, hidden.dtype), direction)
        return self.post_experts_norm.add_to(dense, mixed)

    def store(self, hidden: torch.Tensor, *, layer: int, rotary: Rotary, attention: AttentionPass) -> None:
        """Only put the keys and values of hidden [T, d] into the cache: all that the encoder's last layer is for."""
        self.attention.store(self.input_norm(hidden), layer=layer, rotary=rotary, attention=attention)
