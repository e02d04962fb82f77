"""What a pass needs beside weights, keys, values and logits: one layer's tensors, as layers follow each other in the same memory.

Terms are bytes for each token of the pass, in the order in which a layer makes and drops them. d is the hidden size, e the
bytes of a number, I the width of the feed-forward part, H D the width of all heads.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from math import ceil

from diffusion_worker.inspect.facts import LayerGroup, LayerKind, ModelFacts

from .cache import Span, kept, token_bytes
from .costs import TOKEN_BYTES, EngineCosts
from .workload import Workload

FLOAT32 = 4


@dataclass(frozen=True)
class Pass:
    """A forward pass over `positions` tokens, padding included, up to `queries` of each of `rows`."""

    rows: float  # on average, where only their tokens are limited
    queries: int
    positions: int
    is_causal: bool  # and has a mask for each row


def packed(facts: ModelFacts, engine: EngineCosts, parts: Sequence[tuple[Workload, Pass]]) -> int:
    """Of our own layers (models/gemma_layer.py). Norms and rotations are in float32; see there for what lives how long.

    `parts`: rows that go through the layers together, by how long they are and how many tokens they add.
    """
    load, positions = parts[0][0], sum(run.positions for _, run in parts)
    e, d = load.dtype.element_bytes, facts.hidden_size
    halves = 0 if e == FLOAT32 else e  # a second copy in 16 bits of what is computed in float32
    width = ceil(facts.intermediate_size / load.gpus)
    norm = positions * d * (e + 2 * FLOAT32 + halves)
    dense = positions * (d * (2 * e + FLOAT32) + 3 * width * e) + _gelu(positions * width, load, engine)
    experts = positions * d * (3 * e + FLOAT32) + _experts(facts, load, positions, engine)
    attention = max(
        max(
            positions * _turning(group, facts, load),
            positions * _gathering(group, facts, load) + max(_of_row(group, *part, engine) for part in parts),
        )
        for group in _attending(facts, is_causal=parts[0][1].is_causal)
    )
    masks = sum(part[1].positions * keys.tokens for part in parts for keys in _masked(facts, *part, engine))
    return max(norm, dense, experts, attention) + positions * (rotary_bytes(facts) + 2 * TOKEN_BYTES) + masks


def rotary_bytes(facts: ModelFacts) -> int:
    """Cosines [D] and sines [D/2] of one position, for each kind of layer."""
    head_dims = {group.kind: group.head_dim for group in facts.layers}
    return sum(FLOAT32 * (dim + dim // 2) for dim in head_dims.values())


def _gelu(numbers: int, load: Workload, engine: EngineCosts) -> int:
    """gelu(gate) beside gate, up and their product, or two tiles of it: one is begun before the last is dropped."""
    if engine.gelu_tile is None or load.dtype.element_bytes != FLOAT32:
        return numbers * load.dtype.element_bytes
    return FLOAT32 * min(numbers, 2 * engine.gelu_tile)


def _attending(facts: ModelFacts, *, is_causal: bool) -> list[LayerGroup]:
    """The last layer, which is a full one in every Gemma, only stores in a pass over prompts."""
    every = list(facts.layers)
    some = [group for group in every if group.kind is not LayerKind.FULL or group.layers > 1]
    return some if is_causal and some else every


def _turning(group: LayerGroup, facts: ModelFacts, load: Workload) -> int:
    """Of a token: residual, the layer's input, projections, and what rotation makes of queries and keys."""
    e = load.dtype.element_bytes
    halves = 0 if e == FLOAT32 else e
    values, projected, turned = _heads(group, facts, load)
    return 2 * facts.hidden_size * e + values + (projected + turned) * (FLOAT32 + halves)


def _gathering(group: LayerGroup, facts: ModelFacts, load: Workload) -> int:
    """Of a token: residual, input, values, turned queries and keys, and what queries gather, or this projected."""
    e = load.dtype.element_bytes
    values, projected, turned = _heads(group, facts, load)
    gathered = max(ceil(group.heads / load.gpus) * group.head_dim, facts.hidden_size)
    return 2 * facts.hidden_size * e + (values or projected * FLOAT32) + (turned + gathered) * e


def _heads(group: LayerGroup, facts: ModelFacts, load: Workload) -> tuple[int, int, int]:
    """Of a token: bytes of values that were keys, numbers of all projections, numbers of queries and keys.

    Other values are a part of the normed projections, which live as long as they do.
    """
    heads, kv_heads = ceil(group.heads / load.gpus), ceil(group.kv_heads / load.gpus)
    values_are_keys = facts.shared_kv_projection and group.kind is LayerKind.FULL
    projected = (heads + (1 if values_are_keys else 2) * kv_heads) * group.head_dim
    return kv_heads * group.head_dim * FLOAT32 if values_are_keys else 0, projected, (heads + kv_heads) * group.head_dim


def _of_row(group: LayerGroup, load: Workload, run: Pass, engine: EngineCosts) -> int:
    """Attention goes row by row: what one of them gathers; its mask as numbers; keys repeated and scores for want of a kernel."""
    heads, dim, e = ceil(group.heads / load.gpus), group.head_dim, load.dtype.element_bytes
    keys = kept(group, load, engine, run.queries)
    gathered = run.queries * heads * dim * e
    mask = run.queries * keys.tokens * e if run.is_causal and _is_masked(keys, load, run) else 0
    if not engine.writes_scores:
        return gathered + mask
    repeated = 2 * keys.tokens * heads * dim * e if group.heads > group.kv_heads else 0
    return gathered + mask + repeated + keys.tokens * run.queries * heads * (e + FLOAT32)


def _masked(facts: ModelFacts, load: Workload, run: Pass, engine: EngineCosts) -> list[Span]:
    """Kinds of layers for which each row that reads its prompt has a mask: a bool for each query and key."""
    if not run.is_causal:
        return []
    spans = {(group.kind, group.window): kept(group, load, engine, run.queries) for group in facts.layers}
    return [span for span in spans.values() if _is_masked(span, load, run)]


def _is_masked(span: Span, load: Workload, run: Pass) -> bool:
    """A prompt's first part needs no mask where nothing is hidden."""
    return span.is_windowed or load.tokens > run.queries


def _experts(facts: ModelFacts, load: Workload, positions: int, engine: EngineCosts | None = None) -> int:
    """Tokens are copied to each of their experts, and what comes out is put back in order (models/layers.py)."""
    experts = facts.experts
    if experts is None:
        return 0
    e, d, width = load.dtype.element_bytes, facts.hidden_size, ceil(experts.intermediate_size / load.gpus)
    pairs = positions * experts.active
    gelu = pairs * width * e if engine is None else _gelu(pairs * width, load, engine)
    # Of each pair: which expert, in order of tokens and of experts, and the order; its score and its weight.
    routing = pairs * (3 * TOKEN_BYTES + 2 * FLOAT32) + positions * experts.total * FLOAT32
    return routing + max(pairs * max(d + 2 * width, 3 * width, width + d, 2 * d) * e, pairs * 3 * width * e + gelu)


def padded(facts: ModelFacts, load: Workload, run: Pass, *, keys: int, joined: bool, held: int) -> int:
    """Of transformers' layers (Llama, Qwen 2, Gemma 3), whose queries see `keys` of each row.

    `joined`: keys and values of the rows of a pass are put together from several pieces. `held`: states [T, d] that are
    somebody's variables beside the layer's own: each layer's input, and in transformers' models the embedded tokens.
    """
    e, d = load.dtype.element_bytes, facts.hidden_size
    width = ceil(facts.intermediate_size / load.gpus)
    norm = run.positions * d * (held * e + 3 * FLOAT32)
    dense = run.positions * (d * (2 + held) * e + width * 3 * e)
    experts = run.positions * d * (3 + held) * e + _experts(facts, load, run.positions)
    attention = run.positions * d * (held - 1) * e + max(  # the layer's input is its residual then
        _padded_attention(group, facts, load, run, keys=keys, joined=joined) for group in facts.layers
    )
    feed_forward = max(norm, dense, experts if facts.experts else 0)
    head_dims = {group.kind: group.head_dim for group in facts.layers}
    cos_and_sin = sum(2 * dim * e for dim in head_dims.values())
    masks = run.positions * keys * len(head_dims) if run.is_causal else 0  # bool
    return max(feed_forward, attention) + run.positions * (cos_and_sin + 5 * TOKEN_BYTES) + masks


def _padded_attention(
    group: LayerGroup, facts: ModelFacts, load: Workload, run: Pass, *, keys: int, joined: bool
) -> int:
    e, dim = load.dtype.element_bytes, group.head_dim
    heads, kv_heads = ceil(group.heads / load.gpus), ceil(group.kv_heads / load.gpus)
    residual_and_input = 2 * facts.hidden_size * e
    turning = residual_and_input + (heads + 2 * kv_heads + 3 * heads) * dim * e
    gathering = residual_and_input + (2 * heads + 2 * kv_heads) * dim * e
    copies = ceil(run.rows * keys * token_bytes(group, load)) if joined else 0
    if heads > kv_heads and run.queries > 1:
        copies += ceil(2 * run.rows * keys * heads * dim * e)
    if run.is_causal:
        copies += run.positions * keys * e  # the mask, as what is added to the scores
    return max(run.positions * turning, run.positions * gathering + copies)
