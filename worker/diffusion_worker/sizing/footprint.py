"""Bytes that one workload takes on each GPU, by kind.

Shapes are those of one pass: B rows, C canvas tokens of each (1 when autoregressive), V vocabulary, d hidden size. Nothing
here looks at a budget.
"""

from collections.abc import Iterator
from dataclasses import astuple, dataclass, replace
from math import ceil, floor

from diffusion_worker.config import PlannedBytes
from diffusion_worker.inspect.facts import ModelFacts

from .activations import FLOAT32, Pass, packed, padded
from .cache import computed_again, kv_bytes, token_bytes
from .costs import (
    MASK_PASS_TOKENS,
    MASK_PREDICTIONS,
    PREFILL_CHUNK,
    PREFILL_ROWS,
    SCORED_LOGITS,
    SCORED_TOKENS,
    EngineCosts,
    Layers,
)
from .dtypes import weight_bytes
from .workload import Workload


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


def footprint(facts: ModelFacts, load: Workload, engine: EngineCosts) -> Footprint:
    """What `load` takes on each GPU."""
    kv = load.rows * kv_bytes(facts, load, engine)
    logits = _logits(facts, load, engine)
    self_conditioning = _soft_embeddings(facts, load, engine, copies=engine.soft_embedding_copies)
    # Logits and a layer's tensors are never in memory together: what counts is the larger of the two.
    layers = _soft_embeddings(facts, load, engine, copies=2 * load.branches - 1) + _layers(facts, load, engine)
    activations = max(_beside_the_logits(facts, load), layers - logits - self_conditioning)
    working = kv + logits + self_conditioning + activations
    return Footprint(
        weights=weight_bytes(facts, load.dtype, gpus=load.gpus, keeps_vision=engine.keeps_vision),
        kv=kv,
        logits=logits,
        self_conditioning=self_conditioning,
        activations=activations,
        reserve=engine.context_bytes + ceil(working * engine.fragmentation),
    )


def _logits(facts: ModelFacts, load: Workload, engine: EngineCosts) -> int:
    """At the worst of the moments from the head to the tokens."""
    vocabulary = facts.vocab_size
    positions = load.rows * load.canvas
    if engine.layers is Layers.WHOLE:
        positions = min(positions, MASK_PREDICTIONS)
    numbers = positions * vocabulary
    branches = load.branches if engine.layers is Layers.PACKED else 1
    # The head's product is in the type of the weights; its float32 copy is made beside it.
    element = load.dtype.element_bytes
    from_the_head = numbers * branches * (1 if element == FLOAT32 else 1 + element / FLOAT32)
    kept = numbers * max(branches, engine.predict_copies)
    tile = min(numbers, max(vocabulary, engine.tile))
    drawn_together = load.canvas if engine.layers is Layers.PACKED else 1
    nucleus_tile = min(drawn_together * vocabulary, max(vocabulary, engine.nucleus_tile)) if load.top_p else 0
    sampled = kept + max(engine.predict_tiles * tile, engine.nucleus_tiles * nucleus_tile)
    likelihoods = numbers * engine.likelihood_copies
    if engine.layers is Layers.PADDED and load.scores:  # logits of texts, and the sum of their exponentials
        likelihoods = max(likelihoods, 2 * min(SCORED_TOKENS, max(1, SCORED_LOGITS // vocabulary)) * vocabulary)
    return ceil(FLOAT32 * max(from_the_head, sampled, likelihoods))


def _beside_the_logits(facts: ModelFacts, load: Workload) -> int:
    """Hidden states before and after the last norm."""
    return 2 * load.rows * load.branches * load.canvas * facts.hidden_size * load.dtype.element_bytes


def _soft_embeddings(facts: ModelFacts, load: Workload, engine: EngineCosts, *, copies: int) -> int:
    if not facts.self_conditioning or load.canvas == 1 or engine.layers is not Layers.PACKED:
        return 0
    return copies * load.rows * load.canvas * facts.hidden_size * load.dtype.element_bytes


def _layers(facts: ModelFacts, load: Workload, engine: EngineCosts) -> int:
    """Most that the layers of any pass need, keys and values of other kinds than between passes included."""
    match engine.layers:
        case Layers.PACKED:
            return max(_prefill(facts, load, engine), _denoise(facts, load, engine))
        case Layers.PADDED:
            return _autoregressive(facts, load, engine)
        case Layers.WHOLE:
            return _whole(facts, load)


def _denoise(facts: ModelFacts, load: Workload, engine: EngineCosts) -> int:
    rows = load.rows * load.branches
    run = Pass(rows=rows, queries=load.canvas, positions=rows * load.canvas, is_causal=False)
    return packed(facts, load, engine, run)


def _prefill(facts: ModelFacts, load: Workload, engine: EngineCosts) -> int:
    """The larger of two kinds of passes over prompts (engine/slots.py).

    When no row runs, a pass reads chunks of some rows, which are all that have keys yet. Beside rows that run, which may
    all commit a canvas, it reads less, but all rows have theirs. Chunks are longer than canvases, and lie behind what a
    sliding layer keeps.
    """
    chunk = min(PREFILL_CHUNK, _longest_prompt(load))
    passes = [*_first_passes(facts, load, engine)]
    kv, chunk_kv = kv_bytes(facts, load, engine), kv_bytes(facts, load, engine, new=chunk)
    fill = PREFILL_CHUNK / chunk  # rows whose chunks fill the room beside those that run: the sum is largest near there
    for reading in {min(load.rows - 1, count) for count in (1, floor(fill), ceil(fill))} - {0}:
        positions = (load.rows - reading) * load.canvas + min(reading * chunk, PREFILL_CHUNK)
        run = Pass(rows=load.rows, queries=chunk, positions=positions, is_causal=True)
        longer = ceil(min(reading * chunk, PREFILL_CHUNK) / chunk) * max(0, chunk_kv - kv)
        passes.append(longer + packed(facts, load, engine, run))
    return max(passes)


def _first_passes(facts: ModelFacts, load: Workload, engine: EngineCosts) -> Iterator[int]:
    """When no row runs. One row alone reads chunk after chunk; several may all end their prompts in the same pass."""
    prompt, planned_kv = _longest_prompt(load), load.rows * kv_bytes(facts, load, engine)
    last = (prompt - 1) % PREFILL_CHUNK + 1
    for begin in sorted({0, max(0, prompt - last - PREFILL_CHUNK), prompt - last}):
        chunk = min(PREFILL_CHUNK, prompt - begin)
        read = replace(load, tokens=begin + chunk, canvas=1)
        run = Pass(rows=1, queries=chunk, positions=chunk, is_causal=True)
        kv = kv_bytes(facts, read, engine, new=chunk)
        if load.rows > 1:
            positions = min(load.rows * chunk, PREFILL_ROWS * PREFILL_CHUNK)
            run = Pass(rows=load.rows, queries=chunk, positions=positions, is_causal=True)
            others = kv_bytes(facts, replace(load, tokens=prompt, canvas=1), engine)
            kv = load.rows * max(kv, others)
        yield kv - planned_kv + packed(facts, read, engine, run)


def _longest_prompt(load: Workload) -> int:
    return max(1, load.tokens - 1)


def _autoregressive(facts: ModelFacts, load: Workload, engine: EngineCosts) -> int:
    """The largest of a token of every row, and passes over prompts: of many rows when none runs, or of one beside others.

    All rows have storage for as many tokens as the longest has by then. It grows tensor by tensor.
    """
    prompt, kv = _longest_prompt(load), load.rows * kv_bytes(facts, load, engine)

    def run(rows: int, queries: int, keys: int) -> int:
        made = Pass(rows=rows, queries=queries, positions=rows * queries, is_causal=True)
        return padded(facts, load, made, keys=keys, joined=rows < load.rows, held=2)

    passes = [
        run(load.rows, 1, load.tokens),
        max(load.rows * load.tokens * token_bytes(group, load) // 2 for group in facts.layers),
    ]
    for begin in range(0, prompt, PREFILL_CHUNK):
        chunk = min(PREFILL_CHUNK, prompt - begin)
        reading = min(load.rows, PREFILL_ROWS * PREFILL_CHUNK // chunk)
        so_far = load.rows * kv_bytes(facts, replace(load, tokens=begin + chunk), engine)
        passes.append(so_far - kv + run(reading, chunk, begin + chunk))
        if load.rows > 1:
            passes.append(run(min(load.rows - 1, PREFILL_CHUNK // chunk), chunk, begin + chunk))
    return max(passes)


def _whole(facts: ModelFacts, load: Workload) -> int:
    """The larger of a pass over whole sequences and one over blocks, as many rows at once as a pass may have tokens."""

    def run(queries: int) -> Pass:
        rows = min(load.rows, max(1, MASK_PASS_TOKENS // queries))
        return Pass(rows=rows, queries=queries, positions=rows * queries, is_causal=False)

    first, later = run(load.tokens), run(computed_again(load))
    return max(
        padded(facts, load, first, keys=load.tokens, joined=False, held=0),
        padded(facts, load, later, keys=load.tokens, joined=True, held=0),
    )
