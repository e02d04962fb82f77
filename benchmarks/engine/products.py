"""The matrix products of a pass: what is left when everything that could be free is free.

The products are counted from the checkpoint's config.json. Products with a common input count as one, because they can be done as one;
experts as if tokens were spread evenly; attention as products with all keys that are visible. Nothing is counted for embedding, norms,
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

    def denoise(self, *, rows: int, cached: int) -> list[Product]:
        """One denoising step of `rows` canvases behind `cached` tokens each."""
        tokens, width = rows * self.canvas, self.width
        conditioning = [Product(tokens, width, 2 * self.feed_forward), Product(tokens, self.feed_forward, width)]
        vocabulary = [
            Product(tokens, width, self.vocabulary),
            Product(tokens, self.vocabulary, width),
        ]  # logits; soft embedding
        return [*conditioning, *self._all_layers(rows=rows, new=self.canvas, cached=cached), *vocabulary]

    def encode(self, *, rows: int, new: int, cached: int) -> list[Product]:
        """`new` tokens of `rows` rows into the cache, behind `cached` tokens each."""
        return self._all_layers(rows=rows, new=new, cached=cached)

    def _all_layers(self, *, rows: int, new: int, cached: int) -> list[Product]:
        tokens, width = rows * new, self.width
        routed = max(1, tokens * self.experts_per_token // self.experts)  # to each expert
        products = []
        for layer in self.layers:
            past = cached if layer.window is None else min(cached, layer.window - 1)
            seen, across = past + new, layer.heads * layer.head_width
            products += [
                Product(tokens, width, across + (1 + layer.has_values) * layer.kv_heads * layer.head_width),
                Product(new, layer.head_width, seen, batch=rows * layer.heads),
                Product(new, seen, layer.head_width, batch=rows * layer.heads),
                Product(tokens, across, width),
                Product(tokens, width, 2 * self.feed_forward),
                Product(tokens, self.feed_forward, width),
                Product(tokens, width, self.experts),
                Product(routed, width, 2 * self.expert_width, count=self.experts),
                Product(routed, self.expert_width, width, count=self.experts),
            ]
        return products


def _layer(text: Mapping[str, Any], kind: str) -> Layer:
    full = kind == "full_attention"
    return Layer(
        heads=text["num_attention_heads"],
        kv_heads=text["num_global_key_value_heads"] if full else text["num_key_value_heads"],
        head_width=text["global_head_dim"] if full else text["head_dim"],
        has_values=not full,
        window=None if full else text["sliding_window"],
    )
