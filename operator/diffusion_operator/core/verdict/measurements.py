"""What was counted: sums that add up over time and over pods. Floats, since Prometheus extrapolates increases."""

from dataclasses import dataclass
from math import inf, isfinite
from typing import Self

# Sums come out of subtractions of counters: what they contradict by rounding is no fault.
_ROUNDING = 1e-6
# Beyond these nothing was counted, and floats no longer hold what intervals are computed from.
_MOST_COUNTED = 1e14
_LARGEST_SUM = 1e100


@dataclass(frozen=True, slots=True)
class Unreadable:
    """There is no measurement: the source is down, or answered nonsense. `why` completes "no data: ..."."""

    why: str


@dataclass(frozen=True, slots=True)
class Moments:
    """Count, sum and sum of squares of a value."""

    count: float = 0.0
    total: float = 0.0
    total_squares: float = 0.0

    @property
    def mean(self) -> float:
        """Sample mean; `count` > 0."""
        return self.total / self.count

    @property
    def variance(self) -> float:
        """Unbiased sample variance; `count` > 1."""
        return max(0.0, (self.total_squares - self.total * self.total / self.count) / (self.count - 1))

    def __add__(self, other: Self) -> "Moments":
        """Both together."""
        return Moments(self.count + other.count, self.total + other.total, self.total_squares + other.total_squares)

    def fault(self) -> str | None:
        """What no values can have these sums for, or None."""
        numbers = (self.count, self.total, self.total_squares)
        if not all(isfinite(number) for number in numbers):
            return f"a sum is not a finite number (count {self.count}, sum {self.total}, squares {self.total_squares})"
        if self.count < 0 or self.total_squares < 0:
            return f"a count below 0 (count {self.count}, squares {self.total_squares})"
        if self.count > _MOST_COUNTED or max(abs(self.total), self.total_squares) > _LARGEST_SUM:
            return (
                f"sums that nobody counted (count {self.count:g}, sum {self.total:g}, squares {self.total_squares:g})"
            )
        if self.total * self.total > self.count * self.total_squares * (1 + _ROUNDING) + _ROUNDING:
            return f"no {self.count:g} values have the sum {self.total:g} and the sum of squares {self.total_squares:g}"
        return None


@dataclass(frozen=True, slots=True)
class Proportion:
    """How many of `count` trials were `events`."""

    count: float = 0.0
    events: float = 0.0

    def __add__(self, other: Self) -> "Proportion":
        """Both together."""
        return Proportion(self.count + other.count, self.events + other.events)

    def fault(self) -> str | None:
        """What no trials can have these counts for, or None."""
        if not (isfinite(self.count) and isfinite(self.events)):
            return f"a count is not a finite number ({self.events} of {self.count})"
        if not -_ROUNDING <= self.events <= self.count * (1 + _ROUNDING) + _ROUNDING:
            return f"{self.events:g} of {self.count:g} is no share"
        if self.count > _MOST_COUNTED:
            return f"{self.count:g} is more than anybody counted"
        return None


@dataclass(frozen=True, slots=True)
class Buckets:
    """A Prometheus histogram: how many values were at most each bound. The last bound is infinite."""

    bounds: tuple[float, ...] = (inf,)
    counts: tuple[float, ...] = (0.0,)

    @property
    def count(self) -> float:
        """All values."""
        return self.counts[-1]

    def __add__(self, other: Self) -> "Buckets":
        """Both together, when their bounds are alike or one is empty."""
        if self.bounds != other.bounds and self.count and other.count:
            raise ValueError(f"histograms with bounds {self.bounds} and {other.bounds} cannot be added")
        if self.bounds != other.bounds:
            return self if self.count else other
        return Buckets(self.bounds, tuple(map(sum, zip(self.counts, other.counts, strict=True))))

    def above(self, limit: float) -> tuple[Proportion, Proportion]:
        """Values above `limit`: surely, and possibly. They differ when `limit` lies within a bucket."""
        at_most = max((n for bound, n in self._pairs() if bound <= limit), default=0.0)
        surely_at_most = min(n for bound, n in self._pairs() if bound >= limit)
        return Proportion(self.count, self.count - surely_at_most), Proportion(self.count, self.count - at_most)

    def quantile(self, q: float) -> float:
        """Estimate by interpolation in the bucket, as PromQL's histogram_quantile; `count` > 0."""
        rank = q * self.count
        below, start = 0.0, 0.0
        for bound, n in self._pairs():
            if n >= rank:
                return start if bound == inf else start + (bound - start) * (rank - below) / max(n - below, _ROUNDING)
            below, start = n, bound
        return start

    def fault(self) -> str | None:
        """What no histogram can look like, or None."""
        if len(self.bounds) != len(self.counts) or not self.bounds or self.bounds[-1] != inf:
            return f"not a histogram: bounds {self.bounds}, counts {self.counts}"
        if not all(isfinite(n) and n >= 0 for n in self.counts):
            return f"a bucket's count is not a number from 0 on: {self.counts}"
        if max(self.counts) > _MOST_COUNTED:
            return f"a bucket's count is more than anybody counted: {self.counts}"
        if list(self.bounds) != sorted(set(self.bounds)):
            return f"a histogram's bounds do not rise: {self.bounds}"
        falls = any(
            high < low * (1 - _ROUNDING) - _ROUNDING for low, high in zip(self.counts, self.counts[1:], strict=False)
        )
        return f"a histogram's counts fall: {self.counts}" if falls else None

    def _pairs(self) -> list[tuple[float, float]]:
        return list(zip(self.bounds, self.counts, strict=True))


@dataclass(frozen=True, slots=True)
class LengthBucket:
    """Total latency in seconds of both arms' answers of about one length."""

    diffusion: Moments
    ar: Moments

    def __add__(self, other: Self) -> "LengthBucket":
        """Both together."""
        return LengthBucket(self.diffusion + other.diffusion, self.ar + other.ar)


# Latency by output length comes as one bucket per range of lengths, in the same order each time.
Measurement = Moments | Proportion | Buckets | tuple[LengthBucket, ...] | Unreadable
