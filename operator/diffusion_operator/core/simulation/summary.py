"""Many rollouts in a few numbers."""

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from math import ceil

from .play import Played, Result


@dataclass(frozen=True, slots=True)
class Summary:
    """`median_days` and `p95_days` until the end, of those that ended; None when none did.

    `rolled_back_by` counts reasons, `rolled_back_at` the weights in percent that rollbacks happened at.
    """

    runs: int
    promoted: int
    rolled_back: int
    held: int
    median_days: float | None
    p95_days: float | None
    rolled_back_by: dict[str, int]
    rolled_back_at: dict[int, int]


def summarise(played: Sequence[Played]) -> Summary:
    """Count results."""
    results = Counter(one.result for one in played)
    ended = sorted(one.days for one in played if one.result is not Result.HELD)
    back = [one for one in played if one.result is Result.ROLLED_BACK]
    return Summary(
        runs=len(played),
        promoted=results[Result.PROMOTED],
        rolled_back=results[Result.ROLLED_BACK],
        held=results[Result.HELD],
        median_days=percentile(ended, 50),
        p95_days=percentile(ended, 95),
        rolled_back_by=dict(sorted(Counter(one.reason for one in back).items())),
        rolled_back_at=dict(sorted(Counter(one.percent for one in back).items())),
    )


def percentile(ordered: Sequence[float], percent: float) -> float | None:
    """The smallest value that at least `percent` of the values do not exceed; None of none."""
    return ordered[max(0, ceil(len(ordered) * percent / 100) - 1)] if ordered else None
