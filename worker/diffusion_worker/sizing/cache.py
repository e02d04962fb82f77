"""Bytes of keys and values."""

from dataclasses import dataclass, replace
from math import ceil

from diffusion_worker.config import MaskCache
from diffusion_worker.inspect.facts import LayerGroup, LayerKind, ModelFacts

from .costs import MASK_HORIZON, EngineCosts, Layers
from .workload import Workload

GRANULARITY = 64  # tokens; storage of a row of our engine grows in multiples of this (models/row_cache.py)
KEY_MULTIPLE = 16  # a pass may read up to the next multiple of this, behind what it has written
PADDED_GRANULARITY = 128  # tokens; the same of rows that are padded to the longest, which also grows by half


@dataclass(frozen=True)
class Span:
    """Tokens of a row in a layer's cache when a pass adds `new` ones."""

    tokens: int
    is_windowed: bool  # some of the row's tokens are hidden


def kv_bytes(facts: ModelFacts, load: Workload, engine: EngineCosts, *, new: int | None = None) -> int:
    """Keys and values of one row on each GPU, with room for `new` tokens of a pass; None: for a canvas.

    A GPU holds whole heads; with more GPUs than heads they are repeated.
    """
    return sum(
        group.kv_layers * kept(group, load, engine, new or load.canvas).tokens * token_bytes(group, load)
        for group in facts.layers
    ) * (load.branches if engine.layers is Layers.WHOLE else 1)


def token_bytes(group: LayerGroup, load: Workload) -> int:
    """Key and value of one token in one layer."""
    return 2 * ceil(group.kv_heads / load.gpus) * group.head_dim * load.dtype.element_bytes


def row_kv_bytes(facts: ModelFacts, load: Workload, engine: EngineCosts, *, prompt: int, max_tokens: int) -> int:
    """Most that a row with such a prompt and answer takes: its last canvas may reach beyond its last token."""
    canvases = ceil(max_tokens / load.canvas)
    longest = prompt + canvases * load.canvas
    return kv_bytes(facts, replace(load, tokens=max(1, longest - load.canvas + 1)), engine)


def kept(group: LayerGroup, load: Workload, engine: EngineCosts, new: int) -> Span:
    """Tokens in a layer's cache: all and the canvas, or those that the next token sees and the `new` ones of a pass."""
    match engine.layers:
        case Layers.PADDED:
            return Span(load.tokens, is_windowed=group.kind is LayerKind.SLIDING)
        case Layers.WHOLE:
            return Span(_held_fixed(load), is_windowed=False)
    past = _past(group, load) if engine.sliding_layers_drop else None
    longest = rounded_up(load.stored, GRANULARITY)
    if past is None:
        return Span(longest, is_windowed=False)
    windowed = rounded_up(past + max(new, load.canvas), KEY_MULTIPLE)
    return Span(min(longest, windowed), is_windowed=past + 1 < load.stored)


def _past(group: LayerGroup, load: Workload) -> int | None:
    """Committed tokens that a new one sees; None: all."""
    if group.kind is LayerKind.SLIDING and group.window is not None:
        return group.window - 1
    if load.attention_window is not None:
        return load.attention_sink + load.attention_window
    return None


def _held_fixed(load: Workload) -> int:
    """Positions of a mask model whose keys the steps of a block share."""
    # All but the last block's, which may have one token.
    return 0 if load.mask_cache is MaskCache.NONE else load.tokens - 1


def computed_again(load: Workload) -> int:
    """Positions of a row that each step of a mask model computes after the first of a block, at most."""
    match load.mask_cache:
        case MaskCache.NONE:
            return load.tokens
        case MaskCache.PREFIX:
            return min(load.tokens, max(MASK_HORIZON, load.canvas) + 1)
        case MaskCache.DUAL:
            return min(load.tokens, load.canvas + 1)


def rounded_up(number: int, multiple: int) -> int:
    """The next multiple that is not below `number`."""
    return -(-number // multiple) * multiple
