"""Bytes of tensors that are as wide as the vocabulary, at the moments of a step that have most of them.

V is the vocabulary, P the positions that are predicted at once. All of them are float32 but the head's product.
"""

from dataclasses import dataclass
from math import ceil

from diffusion_worker.inspect.facts import ModelFacts

from .activations import FLOAT32
from .cache import kv_bytes
from .costs import (
    DRAW_BLOCK,
    MASK_PREDICTIONS,
    SCORED_LOGITS,
    SCORED_ROWS,
    SCORED_TOKENS,
    SCORED_TOKENS_BESIDE,
    EngineCosts,
    Layers,
)
from .workload import Workload


@dataclass(frozen=True, kw_only=True)
class Logits:
    """Bytes at each moment."""

    at_the_head: int  # when the layers' output becomes logits
    sampled: int  # when these become tokens
    embedded: int  # when probabilities become the next step's self-conditioning

    @property
    def most(self) -> int:
        """At the worst of them."""
        return max(self.at_the_head, self.sampled, self.embedded)


def logits_of(facts: ModelFacts, load: Workload, engine: EngineCosts) -> Logits:
    """Of all rows of a step."""
    positions = load.rows * load.canvas
    if engine.layers is Layers.WHOLE:
        positions = min(positions, MASK_PREDICTIONS)
    numbers = positions * facts.vocab_size
    element = load.dtype.element_bytes
    branches = load.branches if engine.layers is Layers.PACKED else 1
    kept = numbers * max(branches, engine.predict_copies)
    # A mask model's other branch is predicted beside the logits of the first, and beside a copy of them.
    before = 2 * numbers if engine.layers is Layers.WHOLE and load.guidance else 0
    # The head's product is in the type of the weights; its float32 copy is made beside it.
    product = numbers * branches * (1 if element == FLOAT32 else 1 + element / FLOAT32)
    of_a_row = 0 if element == FLOAT32 else load.canvas * facts.vocab_size * element  # in the type of the weights
    sampled = max(kept + _beside_probabilities(facts, load, engine, positions), numbers * engine.likelihood_copies)
    return Logits(
        at_the_head=ceil(FLOAT32 * (before + product)),
        sampled=ceil(FLOAT32 * sampled),
        embedded=ceil(FLOAT32 * kept) + of_a_row if conditions_itself(facts, load, engine) else 0,
    )


def conditions_itself(facts: ModelFacts, load: Workload, engine: EngineCosts) -> bool:
    """Whether canvases have soft embeddings."""
    return facts.self_conditioning and load.canvas > 1 and engine.layers is Layers.PACKED


def _beside_probabilities(facts: ModelFacts, load: Workload, engine: EngineCosts, positions: int) -> float:
    """Numbers that are alive beside all probabilities (samplers/categorical.py)."""
    vocabulary = facts.vocab_size
    tile = min(positions * vocabulary, max(vocabulary, engine.tile))
    drawn_together = load.canvas if engine.layers is Layers.PACKED else 1
    nucleus = min(drawn_together * vocabulary, max(vocabulary, engine.nucleus_tile)) if load.top_p else 0
    # A draw sums blocks of the vocabulary, and then what is in one of them; where it has no such blocks, all of it.
    summed = vocabulary if vocabulary % DRAW_BLOCK else 2 * max(vocabulary // DRAW_BLOCK, DRAW_BLOCK)
    return max(engine.predict_tiles * tile, engine.nucleus_tiles * nucleus, positions * summed)


def of_scores(facts: ModelFacts, load: Workload, engine: EngineCosts, *, kv: int) -> int:
    """Logits of scored texts, and the sum of their exponentials, beside all rows; or more of them in an idle engine."""
    if engine.layers is not Layers.PADDED or not load.scores:
        return 0

    def of(tokens: int) -> int:
        return 2 * FLOAT32 * min(tokens, max(1, SCORED_LOGITS // facts.vocab_size)) * facts.vocab_size

    texts = min(SCORED_ROWS, load.rows)
    idle = of(min(SCORED_TOKENS, texts * load.tokens)) - (kv - texts * kv_bytes(facts, load, engine))
    return max(of(min(SCORED_TOKENS_BESIDE, load.tokens)), idle)
