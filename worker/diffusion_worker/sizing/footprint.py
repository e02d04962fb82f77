"""Bytes that one workload takes on each GPU, by kind.

Shapes are those of one pass: B rows, C canvas tokens of each (1 when autoregressive), V vocabulary, d hidden size. Nothing
here looks at a budget.
"""

from dataclasses import astuple, dataclass, replace
from math import ceil

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
    SCORED_ROWS,
    SCORED_TOKENS,
    SCORED_TOKENS_BESIDE,
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
    kv = load.rows * kv_bytes(facts, load, engine) + score_kv_bytes(facts, load, engine)
    logits = max(_logits(facts, load, engine), _of_scores(facts, load, engine, kv=kv))
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


def score_kv_bytes(facts: ModelFacts, load: Workload, engine: EngineCosts) -> int:
    """Keys and values of the text that is scored beside requests, which has a cache of its own (engine/scores.py)."""
    return kv_bytes(facts, load, engine) if engine.layers is Layers.PADDED and load.scores else 0


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
    return ceil(FLOAT32 * max(from_the_head, sampled, likelihoods))


def _of_scores(facts: ModelFacts, load: Workload, engine: EngineCosts, *, kv: int) -> int:
    """Logits of scored texts, and the sum of their exponentials, beside all rows; or more of them in an idle engine."""
    if engine.layers is not Layers.PADDED or not load.scores:
        return 0

    def of(tokens: int) -> int:
        return 2 * FLOAT32 * min(tokens, max(1, SCORED_LOGITS // facts.vocab_size)) * facts.vocab_size

    texts = min(SCORED_ROWS, load.rows)
    idle = of(min(SCORED_TOKENS, texts * load.tokens)) - (kv - texts * kv_bytes(facts, load, engine))
    return max(of(min(SCORED_TOKENS_BESIDE, load.tokens)), idle)


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
            return _autoregressive(facts, load)
        case Layers.WHOLE:
            return _whole(facts, load)


def _denoise(facts: ModelFacts, load: Workload, engine: EngineCosts) -> int:
    rows = load.rows * load.branches
    run = Pass(rows=rows, queries=load.canvas, positions=rows * load.canvas, is_causal=False)
    return packed(facts, engine, [(load, run)])


def _prefill(facts: ModelFacts, load: Workload, engine: EngineCosts) -> int:
    """The larger of passes over prompts with no row to hold up, and beside rows that run (engine/slots.py).

    All terms grow with rows, tokens and canvas: the bound holds for every shorter load too, whose prompts may end at
    any token of a chunk.
    """
    chunk = min(PREFILL_CHUNK, _longest_prompt(load))
    alone = (_prefill_alone(facts, load, engine, chunk, begun) for begun in range(prompts_begun(load.rows) + 1))
    return max(
        *alone, _prefill_whole(facts, load, engine, chunk), _prefill_beside(facts, load, engine, chunk)
    ) - load.rows * kv_bytes(facts, load, engine)


def _prefill_alone(facts: ModelFacts, load: Workload, engine: EngineCosts, chunk: int, begun: int) -> int:
    """`PREFILL_ROWS` rows read on: `begun` of them but the end of their prompts, so that as many others begin theirs."""
    chunks = min(load.rows, PREFILL_ROWS) - begun
    end = min(chunk, load.canvas + 1)  # what is not longer goes in beside chunks
    longest = replace(load, tokens=_longest_prompt(load), canvas=1)
    first = replace(longest, tokens=chunk)
    kv = chunks * kv_bytes(facts, longest, engine, new=chunk)
    kv += begun * (kv_bytes(facts, longest, engine, new=end) + kv_bytes(facts, first, engine, new=chunk))
    parts = [
        (longest, _causal(chunks, chunk)),
        (longest, _causal(begun, end)),
        (first, replace(_causal(begun, chunk), positions=begun * (chunk - end))),
    ]
    return kv + packed(facts, engine, [part for part in parts if part[1].positions])


def _prefill_whole(facts: ModelFacts, load: Workload, engine: EngineCosts, chunk: int) -> int:
    """Prompts that are no longer than a chunk, as many as a pass reads; the last not to its end."""
    first = replace(load, tokens=chunk, canvas=1)
    most = PREFILL_ROWS * kv_bytes(facts, replace(first, tokens=PREFILL_CHUNK), engine, new=PREFILL_CHUNK)
    one = kv_bytes(facts, first, engine, new=chunk)
    run = replace(_causal(load.rows, chunk), positions=min(load.rows * chunk, PREFILL_ROWS * PREFILL_CHUNK))
    return min(load.rows * one, most + one) + packed(facts, engine, [(first, run)])


def _prefill_beside(facts: ModelFacts, load: Workload, engine: EngineCosts, chunk: int) -> int:
    """One chunk, or shorter prompts of as many tokens, while all others commit a canvas; chunks of as many tokens as the
    canvases of the others have, while these do not.

    Behind what a sliding layer keeps, a chunk takes more room than a canvas.
    """
    kv = kv_bytes(facts, load, engine)
    if load.rows == 1:
        return kv

    def longer(read: int) -> int:
        return max(0, kv_bytes(facts, load, engine, new=read) - kv)

    def beside(readers: int) -> int:
        read = min(readers * chunk, PREFILL_CHUNK)
        canvases, chunks = _causal(load.rows - readers, load.canvas), replace(_causal(readers, chunk), positions=read)
        return packed(facts, engine, [(load, canvases), (load, chunks)])

    room = max(min(many, load.rows - 1) * longer(min(chunk, PREFILL_CHUNK // many)) for many in (1, 2, 4, 8))
    most = room + max(beside(readers) for readers in range(1, most_prompts_beside(rows=load.rows, chunk=chunk) + 1))
    readers = prompts_beside(rows=load.rows, canvas=load.canvas)
    if readers > 1:
        run = replace(_causal(readers, chunk), positions=load.rows * load.canvas * chunk // (chunk + load.canvas))
        most = max(most, readers * longer(chunk) + packed(facts, engine, [(load, run)]))
    return load.rows * kv + most


def _causal(rows: int, queries: int) -> Pass:
    return Pass(rows=rows, queries=queries, positions=rows * queries, is_causal=True)


def prompts_begun(rows: int) -> int:
    """How many of `rows` may begin their prompts when others read but the ends of theirs, and no row runs."""
    return max(0, min(PREFILL_ROWS, rows - PREFILL_ROWS))


def most_prompts_beside(*, rows: int, chunk: int) -> int:
    """How many prompts of `chunk` tokens a pass reads while all others commit a canvas; the last not to its end."""
    return min(rows - 1, ceil(PREFILL_CHUNK / chunk))


def prompts_beside(*, rows: int, canvas: int) -> int:
    """How many of `rows` may read whole chunks at once, when these have no more tokens than the others' canvases."""
    return rows * canvas // (PREFILL_CHUNK + canvas)


def _longest_prompt(load: Workload) -> int:
    return max(1, load.tokens - 1)


def _autoregressive(facts: ModelFacts, load: Workload) -> int:
    """The largest of a token of every row, and passes over prompts, of all rows or of all but one.

    Rows are padded to the longest that is read with them, in storage and in the pass: short prompts beside the end of a
    long one are a rectangle of `PREFILL_ROWS` chunks, whatever the rows. Storage grows tensor by tensor.
    """
    prompt = _longest_prompt(load)
    positions = min(load.rows * min(PREFILL_CHUNK, prompt), PREFILL_ROWS * PREFILL_CHUNK)

    def run(rows: int, positions: int, keys: int) -> int:
        made = Pass(rows=rows, queries=ceil(positions / rows), positions=positions, is_causal=True)
        return padded(facts, load, made, keys=keys, joined=rows < load.rows, held=2)

    passes = [
        run(load.rows, load.rows, load.tokens),
        run(load.rows, positions, prompt),
        max(load.rows * load.tokens * token_bytes(group, load) // 2 for group in facts.layers),
    ]
    if load.rows > 1:
        # Some of them do not read: because prompts are longer than a pass, or because a token of each comes first.
        chunk = min(PREFILL_CHUNK, prompt)
        room = PREFILL_CHUNK * (PREFILL_ROWS if load.rows * chunk > PREFILL_CHUNK * PREFILL_ROWS else 1)
        of_others = min((load.rows - 1) * chunk, room)
        passes.append(run(load.rows - 1, of_others, prompt))
    return max(passes)


def _whole(facts: ModelFacts, load: Workload) -> int:
    """The larger of a pass over whole sequences and one over blocks, of as many rows as a pass may have tokens.

    Shorter sequences fill a pass where as many of this length would not.
    """

    def run(queries: int) -> Pass:
        positions = min(load.rows * queries, max(MASK_PASS_TOKENS, queries))
        return Pass(rows=positions / queries, queries=queries, positions=positions, is_causal=False)

    first, later = run(load.tokens), run(computed_again(load))
    return max(
        padded(facts, load, first, keys=load.tokens, joined=False, held=0),
        padded(facts, load, later, keys=load.tokens, joined=True, held=0),
    )
