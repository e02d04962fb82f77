"""Bytes that one workload takes on each GPU, by kind.

A step has moments: layers of a pass, the head, the draw of tokens, the next step's self-conditioning. What one of them
needs has gone when the next one begins, so a plan is made for the worst of them. Nothing here looks at a budget.
"""

from dataclasses import astuple, dataclass
from math import ceil

from diffusion_worker.config import PlannedBytes
from diffusion_worker.inspect.facts import ModelFacts

from .activations import rotary_bytes
from .cache import kv_bytes
from .costs import ADVANCED_BYTES, CANVAS_BYTES, DRAWN_BYTES, TOKEN_BYTES, EngineCosts, Layers
from .dtypes import weight_bytes
from .logits import Logits, conditions_itself, logits_of, of_scores
from .passes import autoregressive, denoise, prefill, whole_sequences
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
    """What `load` takes on each GPU: at the worst moment of a step, not of all of them together."""
    kv = load.rows * kv_bytes(facts, load, engine) + score_kv_bytes(facts, load, engine)
    logits = logits_of(facts, load, engine)
    scores = of_scores(facts, load, engine, kv=kv)
    widest = max(logits.most, scores)
    self_conditioning = _embeddings(facts, load) if conditions_itself(facts, load, engine) else 0
    peak = max(scores, *_moments(facts, load, engine, logits))
    working = kv + self_conditioning + peak
    return Footprint(
        weights=weight_bytes(facts, load.dtype, gpus=load.gpus, keeps_vision=engine.keeps_vision),
        kv=kv,
        logits=widest,
        self_conditioning=self_conditioning,
        activations=peak - widest,
        reserve=engine.context_bytes + ceil(working * engine.fragmentation),
    )


def score_kv_bytes(facts: ModelFacts, load: Workload, engine: EngineCosts) -> int:
    """Keys and values of the text that is scored beside requests, which has a cache of its own (engine/scores.py)."""
    return kv_bytes(facts, load, engine) if engine.layers is Layers.PADDED and load.scores else 0


def _moments(facts: ModelFacts, load: Workload, engine: EngineCosts, logits: Logits) -> list[int]:
    """Bytes beside weights, keys, values and the canvases' own soft embeddings, at each moment that may be the worst."""
    hidden = 2 * load.branches * _embeddings(facts, load)  # before and after the last norm
    match engine.layers:
        case Layers.PACKED:
            return _of_canvases(facts, load, engine, logits, hidden)
        case Layers.PADDED:
            return [autoregressive(facts, load), logits.at_the_head + hidden, logits.sampled]
        case Layers.WHOLE:
            return [whole_sequences(facts, load), logits.at_the_head + hidden, logits.sampled + hidden]


def _of_canvases(facts: ModelFacts, load: Workload, engine: EngineCosts, logits: Logits, hidden: int) -> list[int]:
    """Between two steps canvases are there, and the rotary positions of the last pass."""
    positions = load.rows * load.canvas
    canvases = positions * CANVAS_BYTES
    embeddings = self_conditioned = _embeddings(facts, load) if conditions_itself(facts, load, engine) else 0
    # The other branch of guidance goes through the layers beside the first: both are copied for it.
    guided = 2 * (self_conditioned + positions * TOKEN_BYTES) if load.guidance else 0
    kept = canvases + positions * load.branches * rotary_bytes(facts)
    return [
        canvases + prefill(facts, load, engine),
        canvases + guided + denoise(facts, load, engine),
        kept + guided + hidden + logits.at_the_head,
        kept + positions * DRAWN_BYTES + logits.sampled,
        kept + positions * ADVANCED_BYTES + embeddings + logits.embedded,
    ]


def _embeddings(facts: ModelFacts, load: Workload) -> int:
    """A number for each position of each canvas and each of the hidden size."""
    return load.rows * load.canvas * facts.hidden_size * load.dtype.element_bytes
