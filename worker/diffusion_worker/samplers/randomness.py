"""Counter-based random numbers: a function of a key and a counter, not of what was drawn before.

A row's numbers are keyed by (seed, canvas, step, stream). So its tokens depend neither on the rows that share its
batch, nor on when it arrived, nor on the machine: the arithmetic is on integers and the same everywhere.
The mixer is the finaliser of SplitMix64 (Steele, Lea and Flood 2014, doi:10.1145/2660193.2660195).
"""

from enum import IntEnum

import torch

_MASK = (1 << 64) - 1
_GAMMA = 0x9E3779B97F4A7C15
_FACTORS = (0xBF58476D1CE4E5B9, 0x94D049BB133111EB)


class Stream(IntEnum):
    """What the numbers are for; keeps uses at the same step independent."""

    SAMPLE = 0
    NOISE = 1


def row_key(*, seed: int, canvas: int, step: int, stream: Stream) -> int:
    """Key of one row's numbers at one step, as a signed 64-bit integer that a tensor can hold."""
    key = 0
    for part in (seed, canvas, step, stream):
        key = _mix_int((key ^ part) + _GAMMA)
    return _signed(key)


def uniforms(keys: torch.Tensor, count: int) -> torch.Tensor:
    """Uniform numbers in [0, 1), float32 `[B, count]`, for keys int64 `[B]`. Multiples of 2**-24, so never 1."""
    return _uniform(_bits(keys, count))


def another(u: torch.Tensor) -> torch.Tensor:
    """For each uniform number of `uniforms`, one that does not show it: for those whose first draw was rejected."""
    return _uniform(_mix(((u.double() * 2.0**24).to(torch.int64) + 1) * _signed(_GAMMA)))


def integers(keys: torch.Tensor, count: int, *, high: int) -> torch.Tensor:
    """Integers in [0, high), int64 `[B, count]`, for keys int64 `[B]`; the bias is below high / 2**53."""
    return _shift(_bits(keys, count), 11) % high


def _bits(keys: torch.Tensor, count: int) -> torch.Tensor:
    """64 random bits as int64 `[B, count]`. Integer overflow wraps, as the mixer wants."""
    counter = torch.arange(1, count + 1, device=keys.device, dtype=torch.int64)
    return _mix(keys[:, None] + counter * _signed(_GAMMA))


def _uniform(bits: torch.Tensor) -> torch.Tensor:
    return _shift(bits, 40).to(torch.float32) * 2.0**-24


def _mix(z: torch.Tensor) -> torch.Tensor:
    z = (z ^ _shift(z, 30)) * _signed(_FACTORS[0])
    z = (z ^ _shift(z, 27)) * _signed(_FACTORS[1])
    return z ^ _shift(z, 31)


def _shift(z: torch.Tensor, places: int) -> torch.Tensor:
    """Logical right shift; torch's own keeps the sign."""
    return (z >> places) & ((1 << (64 - places)) - 1)


def _mix_int(z: int) -> int:
    z &= _MASK
    z = ((z ^ (z >> 30)) * _FACTORS[0]) & _MASK
    z = ((z ^ (z >> 27)) * _FACTORS[1]) & _MASK
    return z ^ (z >> 31)


def _signed(value: int) -> int:
    value &= _MASK
    return value - (1 << 64) if value >> 63 else value
