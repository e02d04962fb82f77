"""What is known of a revision when it is judged."""

from dataclasses import dataclass, field
from typing import Self, TypeVar

from diffusion_operator.core.verdict import Buckets, LengthBucket, Moments, Proportion, Unreadable

_Sum = TypeVar("_Sum", Moments, Proportion, Buckets)


@dataclass(frozen=True, slots=True)
class Quality:
    """How well a revision answered.

    `pairs` are differences of the mean negative log-likelihood per token (nats) of two answers to the same prompt,
    diffusion minus AR, both scored by the AR model. `repetition` counts answers, and those that repeat themselves.
    """

    pairs: Moments | Unreadable = field(default_factory=Moments)
    repetition: Proportion | Unreadable = field(default_factory=Proportion)

    def __add__(self, other: Self) -> "Quality":
        """Both together; unreadable where one of them is."""
        return Quality(_sum(self.pairs, other.pairs), _sum(self.repetition, other.repetition))


@dataclass(frozen=True, slots=True)
class Speed:
    """How fast a revision answered, and whether.

    `first_token` are seconds to the first text. `latency` are total seconds on both arms by range of output length.
    `errors` counts requests, and those that failed on this arm, whether or not another arm took them over.
    """

    first_token: Buckets | Unreadable = field(default_factory=Buckets)
    latency: tuple[LengthBucket, ...] | Unreadable = ()
    errors: Proportion | Unreadable = field(default_factory=Proportion)

    def __add__(self, other: Self) -> "Speed":
        """Both together; unreadable where one of them is."""
        return Speed(
            _sum(self.first_token, other.first_token),
            _sum_of_lengths(self.latency, other.latency),
            _sum(self.errors, other.errors),
        )


@dataclass(frozen=True, slots=True)
class Crashes:
    """Containers of a revision that ended by themselves in the last minutes, and how many of them for lack of memory."""

    count: int = 0
    out_of_memory: int = 0


@dataclass(frozen=True, slots=True)
class Evidence:
    """All that a revision is judged by.

    `earlier` is the quality of the steps before this one; `quality` and `speed` are those of this step, `guard` is the
    speed of the last minutes. Each time span that is looked at anew has its part of the false alarm, so they are
    counted from 0: `run` counts what `earlier` reaches back to, `step` the steps, `window` the guard's windows in the step.
    """

    earlier: Quality = field(default_factory=Quality)
    quality: Quality = field(default_factory=Quality)
    speed: Speed = field(default_factory=Speed)
    guard: Speed = field(default_factory=Speed)
    crashes: Crashes = field(default_factory=Crashes)
    run: int = 0
    step: int = 0
    window: int = 0


def _sum(one: _Sum | Unreadable, other: _Sum | Unreadable) -> _Sum | Unreadable:
    if isinstance(one, Unreadable):
        return one
    return other if isinstance(other, Unreadable) else one + other


_Lengths = tuple[LengthBucket, ...] | Unreadable


def _sum_of_lengths(one: _Lengths, other: _Lengths) -> _Lengths:
    if isinstance(one, Unreadable):
        return one
    if isinstance(other, Unreadable) or not one:
        return other
    return tuple(a + b for a, b in zip(one, other, strict=True)) if other else one
