"""Repeated measurements: their order, their median and their spread. Pure."""

import statistics
from collections.abc import Sequence
from dataclasses import dataclass


@dataclass(frozen=True)
class Tally:
    """What `runs` measurements of one thing gave."""

    median: float
    min: float
    max: float
    runs: int

    @classmethod
    def of(cls, values: Sequence[float]) -> "Tally":
        """Summarize at least one measurement."""
        if not values:
            raise ValueError("there is no measurement to summarize")
        return cls(median=statistics.median(values), min=min(values), max=max(values), runs=len(values))


def interleaved(names: Sequence[str], *, runs: int) -> list[str]:
    """Every name `runs` times, round by round.

    Each round begins with another name, so that whoever comes first or after a certain neighbour is not always the same: a machine
    that gets slower with time or warm from the run before then does not favour anyone.
    """
    return [names[(first + i) % len(names)] for first in range(runs) for i in range(len(names))]


def percentile(values: Sequence[float], percent: float) -> float:
    """The smallest value that at least `percent` % of the values do not exceed (nearest rank)."""
    if not values:
        raise ValueError("there is no value to take a percentile of")
    if not 0 < percent <= 100:
        raise ValueError(f"a percentile lies above 0 and up to 100, not at {percent}")
    ordered = sorted(values)
    return ordered[-int(-percent * len(ordered) // 100) - 1]


def ratio(a: Tally, b: Tally) -> float:
    """How many times `a` is `b`, by medians."""
    return a.median / b.median
