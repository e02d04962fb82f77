"""Bytes that one workload takes on each GPU, by kind.

Shapes are those of one pass: B rows, C canvas tokens of each (1 when autoregressive), T tokens of each in the cache,
V vocabulary, d hidden size. Nothing here looks at a budget.
"""

from dataclasses import astuple, dataclass
from math import ceil

from diffusion_worker.config import PlannedBytes
from diffusion_worker.inspect.facts import LayerGroup, LayerKind, ModelFacts

from .costs import EngineCosts
from .dtypes import Dtype, weight_bytes

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

    @property
    def step(self) -> int:
        """What a pass adds to weights, keys and values."""
        return self.logits + self.self_conditioning + self.activations

    @property
    def planned(self) -> PlannedBytes:
        """The same as a worker's configuration has it."""
        return PlannedBytes(weights=self.weights, kv=self.kv, step=self.step, reserve=self.reserve)


@dataclass(frozen=True)
class _Pass:
    """A forward pass over `queries` tokens of each of `rows`."""

    rows: int
    queries: int

    @property
    def positions(self) -> int:
        return self.rows * self.queries


def footprint(facts: ModelFacts, load: Workload, engine: EngineCosts) -> Footprint:
    """What `load` takes on each GPU."""
    kv = load.rows * kv_bytes(facts, load, engine)
    logits = _logits(facts, load, engine)
    self_conditioning = _self_conditioning(facts, load, engine)
    # A denoising pass holds logits, a prefill pass does not, and they never run at the same time. But a prefill pass has
    # longer chunks than canvases are, which lie behind what a sliding layer keeps.
    denoise = _activations(facts, load, engine, _Pass(load.rows * load.branches, load.canvas))
    chunk = min(engine.prefill_chunk, load.tokens)
    longer = load.rows * kv_bytes(facts, load, engine, new=max(chunk, load.canvas)) - kv
    prefill = longer + _activations(facts, load, engine, _Pass(load.rows, chunk))
    activations = max(denoise, prefill - logits)
    working = kv + logits + self_conditioning + activations
    return Footprint(
        weights=weight_bytes(facts, load.dtype, gpus=load.gpus, keeps_vision=engine.keeps_vision),
        kv=kv,
        logits=logits,
        self_conditioning=self_conditioning,
        activations=activations,
        reserve=engine.context_bytes + ceil(working * engine.fragmentation),
    )


def kv_bytes(facts: ModelFacts, load: Workload, engine: EngineCosts, *, new: int | None = None) -> int:
    """Keys and values of one row on each GPU, with room for `new` tokens of a pass; None: for a canvas.

    A GPU holds whole heads; with more GPUs than heads they are repeated.
    """
    return sum(
        group.kv_layers
        * _kept(group, load, engine, new or load.canvas)
        * 2
        * ceil(group.kv_heads / load.gpus)
        * group.head_dim
        * load.dtype.element_bytes
        for group in facts.layers
    )


def _kept(group: LayerGroup, load: Workload, engine: EngineCosts, new: int) -> int:
    """Tokens in a layer's cache: all and the canvas, or those that the next token sees and the `new` ones of a pass."""
    longest = load.tokens
    if engine.canvas_in_cache:
        longest = ceil((load.tokens + load.canvas) / engine.granularity) * engine.granularity
    if group.kind is LayerKind.FULL or group.window is None or not engine.sliding_layers_drop:
        return longest
    return min(longest, group.window - 1 + new)


def _logits(facts: ModelFacts, load: Workload, engine: EngineCosts) -> int:
    """At the worst of four moments, none of which is at the same time as another."""
    # The head's product is in the type of the weights; its float32 copy is made beside it.
    element = load.dtype.element_bytes
    from_the_head = load.branches * (1 if element == _FLOAT32 else 1 + element / _FLOAT32)
    copies = max(from_the_head, engine.predict_copies, engine.guidance_copies if load.guidance else 0)
    with_nucleus = load.rows + engine.nucleus_copies
    one_row = load.canvas * facts.vocab_size * _FLOAT32
    return ceil(one_row * max(load.rows * copies, with_nucleus))


def _self_conditioning(facts: ModelFacts, load: Workload, engine: EngineCosts) -> int:
    if not facts.self_conditioning or load.canvas == 1:
        return 0
    soft_embedding = load.rows * load.canvas * facts.hidden_size * load.dtype.element_bytes
    return soft_embedding * engine.soft_embedding_copies


def _activations(facts: ModelFacts, load: Workload, engine: EngineCosts, run: _Pass) -> int:
    """What one layer of a pass needs, at the worst of its parts; layers follow each other in the same memory.

    Beside each part stand the residual and the part's input; beside the feed-forward parts also the direction of their
    norms in float32, and the output of the one that was first.
    """
    element = load.dtype.element_bytes
    state = run.positions * facts.hidden_size
    attention = 2 * state * element + max(_attention(group, facts, load, engine, run) for group in facts.layers)
    # Gate and up, the gate's activation, and their product.
    dense = run.positions * 4 * ceil(facts.intermediate_size / load.gpus) * element
    norm = state * (2 * element + 3 * _FLOAT32)
    return max(
        attention,
        norm,
        state * (2 * element + _FLOAT32) + dense,
        state * (3 * element + _FLOAT32) + _experts(facts, load, run.positions),
    )


def _attention(group: LayerGroup, facts: ModelFacts, load: Workload, engine: EngineCosts, run: _Pass) -> int:
    element = load.dtype.element_bytes
    heads, kv_heads = ceil(group.heads / load.gpus), ceil(group.kv_heads / load.gpus)
    shares_projection = facts.shared_kv_projection and group.kind is LayerKind.FULL
    # Queries, keys and values: as projected, and in float32 their direction, norm and rotation; else rotated only.
    of_head = element + 3 * _FLOAT32 if engine.float32_heads else 2 * element
    projected = run.positions * (heads + (1 if shares_projection else 2) * kv_heads) * group.head_dim * of_head
    gathered = 2 * run.positions * heads * group.head_dim * element
    rows = 1 if engine.rows_attend_alone else run.rows
    keys = rows * _kept(group, load, engine, run.queries)
    repeated = 2 * keys * heads * group.head_dim * element if heads > kv_heads else 0
    scores = keys * run.queries * heads * (element + _FLOAT32) if engine.writes_scores else 0
    mask = keys * run.queries * (1 + element)  # bool, and as what is added to the scores
    joined = 0
    if not engine.rows_attend_alone:  # rows whose slots have holes between them are copied
        joined = 2 * keys * kv_heads * group.head_dim * element
    return projected + gathered + repeated + joined + max(scores, mask)


def _experts(facts: ModelFacts, load: Workload, positions: int) -> int:
    """Tokens are copied to each of their experts, and what comes out is put back in order (models/layers.py)."""
    experts = facts.experts
    if experts is None:
        return 0
    d, width = facts.hidden_size, ceil(experts.intermediate_size / load.gpus)
    numbers = max(d + 2 * width, 4 * width, width + 2 * d)  # at the first product, at the activation, at the end
    return positions * experts.active * numbers * load.dtype.element_bytes
