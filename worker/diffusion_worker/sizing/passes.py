"""Bytes of the layers of one pass, for every kind of pass that may be the largest of an engine.

They are beside weights and the keys and values that rows have between passes; storage for a pass' own tokens is included.
"""

from dataclasses import replace
from math import ceil

from diffusion_worker.inspect.facts import ModelFacts

from .activations import Pass, packed, padded
from .cache import computed_again, kv_bytes, token_bytes
from .costs import MASK_PASS_TOKENS, PREFILL_CHUNK, PREFILL_ROWS, EngineCosts
from .workload import Workload


def denoise(facts: ModelFacts, load: Workload, engine: EngineCosts) -> int:
    """Over the canvases of all rows."""
    rows = load.rows * load.branches
    run = Pass(rows=rows, queries=load.canvas, positions=rows * load.canvas, is_causal=False)
    return packed(facts, engine, [(load, run)])


def prefill(facts: ModelFacts, load: Workload, engine: EngineCosts) -> int:
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

    A row that commits has its last canvas still before it. Behind what a sliding layer keeps, a chunk takes more room
    than a canvas.
    """
    held = kv_bytes(facts, load, engine)
    if load.rows == 1:
        return held
    reading = replace(load, tokens=_longest_prompt(load), canvas=1)
    committing = kv_bytes(facts, reading, engine, new=load.canvas)

    def longer(read: int, than: int) -> int:
        return max(0, kv_bytes(facts, reading, engine, new=read) - than)

    def beside(readers: int) -> int:
        read = min(readers * chunk, PREFILL_CHUNK)
        canvases, chunks = _causal(load.rows - readers, load.canvas), replace(_causal(readers, chunk), positions=read)
        return packed(facts, engine, [(reading, canvases), (reading, chunks)])

    room = max(
        min(many, load.rows - 1) * longer(min(chunk, PREFILL_CHUNK // many), committing) for many in (1, 2, 4, 8)
    )
    most = max(beside(readers) for readers in range(1, most_prompts_beside(rows=load.rows, chunk=chunk) + 1))
    readers = max(1, prompts_beside(rows=load.rows, canvas=load.canvas))
    read = max(chunk, load.rows * load.canvas * chunk // (chunk + load.canvas)) if readers > 1 else chunk
    as_many = packed(facts, engine, [(reading, replace(_causal(readers, chunk), positions=read))])
    return max(
        load.rows * committing + room + most,
        load.rows * held + readers * longer(chunk, held) + as_many,
    )


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


def autoregressive(facts: ModelFacts, load: Workload) -> int:
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


def whole_sequences(facts: ModelFacts, load: Workload) -> int:
    """The larger of a pass over whole sequences and one over blocks, of as many rows as a pass may have tokens.

    Shorter sequences fill a pass where as many of this length would not.
    """

    def run(queries: int) -> Pass:
        positions = min(load.rows * queries, max(MASK_PASS_TOKENS, queries))
        return Pass(rows=positions / queries, queries=queries, positions=positions, is_causal=False)

    first, later = run(load.tokens), run(computed_again(load))
    return max(
        padded(facts, load, first, keys=load.tokens, joined=False, held=1),
        padded(facts, load, later, keys=load.tokens, joined=True, held=1),
    )
