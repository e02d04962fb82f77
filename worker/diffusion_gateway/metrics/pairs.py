"""Pairs of answers to the same prompt: docs/quality.md says how they are made and what they tell."""

from ..routes import Model
from .families import Families
from .labels import PAIR, pair_labels

_SIDE = (*PAIR, "side")


class PairMetrics:
    """Sums over pairs. Counters never fall, so a difference is counted above and below zero apart."""

    def __init__(self, families: Families) -> None:
        self.pairs = families.counter("pairs", "Diffusion answers that AR answered too, both scored by AR.", PAIR)
        difference = "of the differences of mean negative log-likelihood per token (nats), diffusion minus AR"
        self.above = families.counter("pair_nll_above", f"Sum {difference}, where positive.", PAIR)
        self.below = families.counter("pair_nll_below", f"Sum {difference}, where negative, without its sign.", PAIR)
        self.squared = families.counter("pair_nll_squared", f"Sum of the squares {difference}.", PAIR)
        self.waiting = families.gauge("pairs_waiting", "Samples that wait to be compared or are being compared.")
        self.dropped = families.counter(
            "pairs_dropped", "Sampled answers that became no pair. They are missing, not zero.", (*PAIR, "reason")
        )
        self.nll = families.counter(
            "pair_nll", "Nats of the texts compared, per side `diffusion` or `ar`; by their tokens or bytes.", _SIDE
        )
        self.tokens = families.counter("pair_tokens", "Tokens of the texts compared, as AR reads them.", _SIDE)
        self.text_bytes = families.counter("pair_text_bytes", "UTF-8 bytes of the texts compared.", _SIDE)
        self.output_tokens = families.counter("pair_output_tokens", "Output tokens of both answers, uncut.", _SIDE)
        self.checked = families.counter(
            "pair_checked", "Answers of pairs that were long enough to look for repetition in them.", _SIDE
        )
        self.repeating = families.counter("pair_repeating", "Those of pair_checked that repeat themselves.", _SIDE)
        self.distinct_2 = families.counter(
            "pair_distinct_2", "Sum over pair_checked of the share of different pairs of neighbouring tokens.", _SIDE
        )

    def begin(self, model: Model, *, revision: str, ar_revision: str) -> None:
        """Let what the gate reads begin at 0."""
        labels = pair_labels(model, revision=revision, ar_revision=ar_revision)
        for family in (self.pairs, self.above, self.below, self.squared):
            family.labels(*labels)
