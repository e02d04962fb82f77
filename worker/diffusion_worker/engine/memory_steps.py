"""The steps that take most memory, as rows that have so much of their prompts left to read. Pure.

They are those that the plan is made for (`sizing.passes`): what is here and what is there belong together.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from diffusion_worker.sizing import Workload
from diffusion_worker.sizing.costs import MASK_PASS_TOKENS, PREFILL_CHUNK, PREFILL_ROWS, Layers
from diffusion_worker.sizing.passes import most_prompts_beside, prompts_begun, prompts_beside

_ROOM = PREFILL_CHUNK * PREFILL_ROWS  # tokens of prompts in a pass that holds nobody up


@dataclass(frozen=True)
class Stage:
    """Rows that join, and then a step of all."""

    prompt: int
    left: Sequence[int] = ()  # tokens of its prompt that each has to read; the first of them came last
    answer: int = 1


def largest_steps(load: Workload, layers: Layers) -> Iterator[list[Stage]]:
    """Each kind of step that may be the largest, with the stages that lead to it."""
    match layers:
        case Layers.PACKED:
            yield from _packed(load)
        case Layers.PADDED:
            yield from _padded(load)
        case Layers.WHOLE:
            yield from _whole(load)


def _packed(load: Workload) -> Iterator[list[Stage]]:
    prompt, rows = load.tokens - 1, load.rows
    chunk, canvas = min(PREFILL_CHUNK, prompt), min(load.canvas, prompt)
    yield [Stage(prompt, [canvas] * rows)]  # first: the canvases that it makes stay beside the passes over prompts
    yield [Stage(prompt, [chunk] * rows)]
    begun = prompts_begun(rows)
    if begun and prompt > PREFILL_CHUNK:  # some end their prompts and leave room for others that begin theirs
        ends = [min(chunk, canvas + 1)] * begun
        yield [Stage(prompt, [prompt] * (rows - PREFILL_ROWS) + [chunk] * (PREFILL_ROWS - begun) + ends)]
    if rows > 1:
        readers = most_prompts_beside(rows=rows, chunk=chunk)
        yield [Stage(prompt, [chunk] * readers + [canvas] * (rows - readers))]
    readers = prompts_beside(rows=rows, canvas=canvas)
    if readers > 1:
        yield [Stage(prompt, [canvas] * (rows - readers)), Stage(prompt, [chunk] * readers)]


def _padded(load: Workload) -> Iterator[list[Stage]]:
    prompt, rows = load.tokens - 1, load.rows
    chunk = min(PREFILL_CHUNK, prompt)
    yield [Stage(prompt, [min(chunk, _ROOM // rows)] * rows), Stage(prompt)]
    if rows == 1:
        return
    if rows * chunk > _ROOM:  # one waits, for want of room beside the others
        yield [Stage(prompt, [min(chunk, max(_ROOM // (rows - 1), _ROOM // rows + 1))] * rows)]
    else:
        yield [Stage(prompt, [1] + [min(chunk, PREFILL_CHUNK // (rows - 1))] * (rows - 1))]


def _whole(load: Workload) -> Iterator[list[Stage]]:
    """The first step of a block is over whole sequences, the next over the block; shorter ones may fill a pass better."""
    longest = load.tokens - 1
    yield [Stage(longest, [longest] * load.rows)]  # blocks of one token, which one step decides: most is kept beside it
    answer = min(load.canvas, load.tokens - 1)  # a block is as long as its answer lets it
    in_a_pass = -(-MASK_PASS_TOKENS // load.tokens)
    for tokens in {load.tokens, min(load.tokens, MASK_PASS_TOKENS // min(load.rows, in_a_pass))}:
        prompt = max(1, tokens - answer)
        yield [Stage(prompt, [prompt] * load.rows, answer), Stage(prompt)]
