"""The matrix products of a pass: what is left when everything that could be free is free.

The products are counted from the checkpoint's config.json. Products with a common input count as one, because they can be done as one;
experts as if tokens were spread evenly; attention as products with all keys that are visible. What an engine can leave out is not counted. Nothing is counted for embedding, norms,
rotary positions, softmax, routing, the sampler and all Python.
"""

import json
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any


@dataclass(frozen=True)
class Product:
    """`count` times `batch` products of [m, k] with [k, n]."""

    m: int
    k: int
    n: int
    count: int = 1
    batch: int = 1

    @property
    def shape(self) -> "Product":
        """The same once: what is timed."""
        return replace(self, count=1)

    @property
    def operations(self) -> int:
        """Multiplications and additions."""
        return 2 * self.m * self.k * self.n * self.batch * self.count


@dataclass(frozen=True)
class Layer:
    """What of a layer matters for its products."""

    heads: int
    kv_heads: int
    head_width: int
    has_values: bool  # full layers use their keys as values
    window: int | None

    @property
    def cached_width(self) -> int:
        """What of a token is projected into the cache."""
        return (1 + self.has_values) * self.kv_heads * self.head_width

    def past(self, cached: int) -> int:
        """How many of `cached` tokens it sees."""
        return cached if self.window is None else min(cached, self.window - 1)

    def attention(self, *, rows: int, new: int, seen: int) -> list[Product]:
        """Scores and weighted sums of `new` tokens that each see `seen`."""
        batch = rows * self.heads
        return [Product(new, self.head_width, seen, batch=batch), Product(new, seen, self.head_width, batch=batch)]


@dataclass(frozen=True)
class Geometry:
    """What of a DiffusionGemma matters for its products."""

    width: int
    feed_forward: int
    experts: int
    experts_per_token: int
    expert_width: int
    vocabulary: int
    canvas: int
    layers: tuple[Layer, ...]

    @classmethod
    def read(cls, checkpoint: Path) -> "Geometry":
        """From config.json, in the form that vLLM reads as well."""
        config = json.loads((checkpoint / "config.json").read_text())
        text = config["text_config"]
        return cls(
            width=text["hidden_size"],
            feed_forward=text["intermediate_size"],
            experts=text["num_experts"],
            experts_per_token=text["top_k_experts"],
            expert_width=text["moe_intermediate_size"],
            vocabulary=text["vocab_size"],
            canvas=config["canvas_length"],
            layers=tuple(_layer(text, kind) for kind in text["layer_types"]),
        )

    def denoise(self, *, rows: int, cached: int, is_first: bool = False, is_last: bool = False) -> list[Product]:
        """One denoising step of `rows` canvases behind `cached` tokens each.

        The first step of a canvas has no prediction before it to be conditioned on, and what the last one predicts conditions nothing.
        """
        tokens, width = rows * self.canvas, self.width
        products = [Product(tokens, width, self.vocabulary)]  # logits
        if not is_last:
            products.append(Product(tokens, self.vocabulary, width))  # soft embedding
        if not is_first:
            products += self._feed_forward(tokens)
        for layer in self.layers:
            seen = layer.past(cached) + self.canvas
            products += [*self._projections(layer, tokens), *layer.attention(rows=rows, new=self.canvas, seen=seen)]
            products += self._after_attention(layer, tokens)
        return products

    def encode(self, *, rows: int, new: int, cached: int) -> list[Product]:
        """`new` tokens of `rows` rows into the cache, behind `cached` tokens each. Of the last layer only keys and values are wanted."""
        tokens = rows * new
        *before, last = self.layers
        products = [Product(tokens, self.width, last.cached_width)]
        for layer in before:
            seen = layer.past(cached) + (new + 1) // 2  # a token sees those before it: half of the new ones, on average
            products += [*self._projections(layer, tokens), *layer.attention(rows=rows, new=new, seen=seen)]
            products += self._after_attention(layer, tokens)
        return products

    def _projections(self, layer: Layer, tokens: int) -> list[Product]:
        return [Product(tokens, self.width, layer.heads * layer.head_width + layer.cached_width)]

    def _after_attention(self, layer: Layer, tokens: int) -> list[Product]:
        routed = max(1, tokens * self.experts_per_token // self.experts)  # to each expert
        return [
            Product(tokens, layer.heads * layer.head_width, self.width),
            *self._feed_forward(tokens),
            Product(tokens, self.width, self.experts),
            Product(routed, self.width, 2 * self.expert_width, count=self.experts),
            Product(routed, self.expert_width, self.width, count=self.experts),
        ]

    def _feed_forward(self, tokens: int) -> list[Product]:
        return [Product(tokens, self.width, 2 * self.feed_forward), Product(tokens, self.feed_forward, self.width)]


def _layer(text: Mapping[str, Any], kind: str) -> Layer:
    full = kind == "full_attention"
    return Layer(
        heads=text["num_attention_heads"],
        kv_heads=text["num_global_key_value_heads"] if full else text["num_key_value_heads"],
        head_width=text["global_head_dim"] if full else text["head_dim"],
        has_values=not full,
        window=None if full else text["sliding_window"],
    )
