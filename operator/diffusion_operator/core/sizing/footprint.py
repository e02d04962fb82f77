"""Bytes that one workload takes on each GPU, by kind.

Shapes are those of one pass: B rows, C canvas tokens of each (1 when autoregressive), T tokens of each in the cache,
V vocabulary, d hidden size. Nothing here looks at a budget.
"""

from dataclasses import astuple, dataclass
from math import ceil

from diffusion_worker.inspect.facts import LayerGroup, LayerKind, ModelFacts

from .dtypes import Dtype, weight_bytes
from .engine import EngineCosts

_FLOAT32 = 4


@dataclass(frozen=True, kw_only=True)
class Workload:
    """Rows of equal length that run together."""

    rows: int
    tokens: int  # prompt and answer of one row
    canvas: int  # 1 for an autoregressive model
    guidance: bool
    dtype: Dtype
    gpus: int

    @property
    def branches(self) -> int:
        """Canvases that each row has in a pass: guidance adds the one that does not see the prompt, over the same cache."""
        return 2 if self.guidance else 1


@dataclass(frozen=True, kw_only=True)
class Footprint:
    """Bytes at the peak of a pass."""

    weights: int
    kv: int
    logits: int
    self_conditioning: int
    activations: int
    reserve: int

    @property
    def total(self) -> int:
        """All of them."""
        return sum(astuple(self))


@dataclass(frozen=True)
class _Pass:
    """A forward pass over `queries` tokens of each of `rows`."""

    rows: int
    queries: int
    causal: bool  # each query has a mask of its own; a canvas has one for all

    @property
    def positions(self) -> int:
        return self.rows * self.queries


def footprint(facts: ModelFacts, load: Workload, engine: EngineCosts) -> Footprint:
    """What `load` takes on each GPU."""
    kv = load.rows * kv_bytes(facts, load, engine)
    logits = ceil(load.rows * load.branches * load.canvas * facts.vocab_size * _FLOAT32 * engine.logit_copies)
    self_conditioning = _self_conditioning(facts, load, engine)
    # A denoising pass holds logits, a prefill pass does not, and they never run at the same time.
    denoise = _activations(facts, load, engine, _Pass(load.rows * load.branches, load.canvas, causal=False))
    prefill = _activations(facts, load, engine, _Pass(load.rows, min(engine.prefill_chunk, load.tokens), causal=True))
    activations = max(denoise, prefill - logits)
    working = kv + logits + self_conditioning + activations
    return Footprint(
        weights=weight_bytes(facts, load.dtype, gpus=load.gpus),
        kv=kv,
        logits=logits,
        self_conditioning=self_conditioning,
        activations=activations,
        reserve=engine.context_bytes + ceil(working * engine.fragmentation),
    )


def kv_bytes(facts: ModelFacts, load: Workload, engine: EngineCosts) -> int:
    """Keys and values of one row on each GPU. A GPU holds whole heads; with more GPUs than heads they are repeated."""
    return sum(
        group.kv_layers
        * _kept(group, load, engine)
        * 2
        * ceil(group.kv_heads / load.gpus)
        * group.head_dim
        * load.dtype.element_bytes
        for group in facts.layers
    )


def _kept(group: LayerGroup, load: Workload, engine: EngineCosts) -> int:
    """Tokens in a layer's cache: all, or those that the first token of the next canvas sees, and the canvas."""
    if group.kind is LayerKind.FULL or group.window is None or not engine.sliding_layers_drop:
        return load.tokens
    return min(load.tokens, group.window - 1 + load.canvas)


def _self_conditioning(facts: ModelFacts, load: Workload, engine: EngineCosts) -> int:
    if not facts.self_conditioning:
        return 0
    soft_embedding = load.rows * load.canvas * facts.hidden_size * load.dtype.element_bytes
    return soft_embedding * engine.soft_embedding_copies


def _activations(facts: ModelFacts, load: Workload, engine: EngineCosts, run: _Pass) -> int:
    """What one layer of a pass needs; layers follow each other in the same memory."""
    element = load.dtype.element_bytes
    # The residual, its norm, and the norm's input and output in float32.
    hidden = run.positions * facts.hidden_size * (2 * element + 2 * _FLOAT32)
    attention = max(_attention(group, load, engine, run) for group in facts.layers)
    # Gate, up, and their product.
    dense = run.positions * 3 * ceil(facts.intermediate_size / load.gpus) * element
    return hidden + max(attention, dense, _experts(facts, load, run.positions))


def _attention(group: LayerGroup, load: Workload, engine: EngineCosts, run: _Pass) -> int:
    element = load.dtype.element_bytes
    heads, kv_heads = ceil(group.heads / load.gpus), ceil(group.kv_heads / load.gpus)
    keys = run.rows * (_kept(group, load, engine) + run.queries)
    width = run.positions * heads * group.head_dim
    queries_and_output = 3 * width * element  # before and after rotation, and the output
    joined = 2 * keys * kv_heads * group.head_dim * element  # the cache with the pass's own keys and values behind it
    repeated = 2 * keys * heads * group.head_dim * element if engine.repeats_kv and heads > kv_heads else 0
    mask = keys * run.queries * (1 + element) if run.causal else 0  # bool, and as what is added to the scores
    return queries_and_output + joined + repeated + mask


def _experts(facts: ModelFacts, load: Workload, positions: int) -> int:
    """Tokens are copied to each of their experts, which have a gate, an up and a down projection."""
    experts = facts.experts
    if experts is None:
        return 0
    width = 2 * facts.hidden_size + 3 * ceil(experts.intermediate_size / load.gpus)
    return positions * experts.active * width * load.dtype.element_bytes
