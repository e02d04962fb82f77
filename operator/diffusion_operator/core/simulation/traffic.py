"""Metrics drawn from what is true."""

from dataclasses import dataclass, field
from datetime import datetime
from math import erf, inf, log, sqrt
from random import Random

from diffusion_operator.core.gates import Quality, Speed
from diffusion_operator.core.rollout import Reading, Window
from diffusion_operator.core.verdict import Buckets, LengthBucket, Proportion, Unreadable

from .draws import binomial, moments, poisson
from .scenario import Truth

_DAY = 86_400.0
# Ranges of output length: their share of the answers, and AR's mean latency in seconds.
_LENGTHS = ((0.3, 2.0), (0.5, 6.0), (0.2, 15.0))
_Z95 = 1.6449
_UNREADABLE = Unreadable("Prometheus does not answer")


@dataclass(frozen=True, slots=True)
class _Slice:
    """What happened between two looks."""

    since: datetime
    quality: Quality
    speed: Speed


@dataclass(slots=True)
class Traffic:
    """Metrics of the canary since its step began."""

    truth: Truth
    first_token_limit: float
    random: Random
    slices: list[_Slice] = field(default_factory=list)
    quality: Quality = field(default_factory=Quality)
    speed: Speed = field(default_factory=Speed)

    def forget(self) -> None:
        """A new step: what came before is no longer asked for."""
        self.slices.clear()
        self.quality, self.speed = Quality(), Speed()

    def flow(self, since: datetime, until: datetime, *, percent: int) -> None:
        """Requests come and are answered."""
        mean = self.truth.requests_per_day * (until - since).total_seconds() / _DAY
        requests = poisson(self.random, mean * percent / 100)
        others = poisson(self.random, mean * (100 - percent) / 100)
        pairs = binomial(self.random, requests, self.truth.scored_share)
        quality = Quality(
            pairs=moments(
                self.random, pairs, mean=log(self.truth.perplexity_ratio), deviation=self.truth.pair_deviation
            ),
            repetition=Proportion(requests, binomial(self.random, requests, self.truth.repetition)),
        )
        speed = Speed(
            first_token=self._first_token(requests),
            latency=tuple(self._latency(share, ar, requests, others + pairs) for share, ar in _LENGTHS),
            errors=Proportion(requests, binomial(self.random, requests, self.truth.errors)),
        )
        self.slices.append(_Slice(since, quality, speed))
        self.quality += quality
        self.speed += speed

    def read(self, window: Window) -> Reading:
        """What Prometheus says of the window."""
        if self.random.random() < self.truth.unreadable:
            speed = Speed(first_token=_UNREADABLE, latency=_UNREADABLE, errors=_UNREADABLE)
            return Reading(window, Quality(_UNREADABLE, _UNREADABLE), speed, speed)
        guard = Speed()
        for part in reversed(self.slices):
            if part.since < window.guard_since:
                break
            guard += part.speed
        return Reading(window, self.quality, self.speed, guard)

    def _first_token(self, answers: int) -> Buckets:
        """Log-normal times, in buckets around the limit."""
        limit = self.first_token_limit
        bounds = (limit / 2, limit, 2 * limit, inf)
        counts, at_most, share = [], 0, 0.0
        middle = log(self.truth.first_token_p95) - _Z95 * self.truth.first_token_spread
        for bound in bounds[:-1]:
            below = (1 + erf((log(bound) - middle) / self.truth.first_token_spread / sqrt(2))) / 2
            at_most += binomial(self.random, answers - at_most, (below - share) / (1 - share) if share < 1 else 1.0)
            share = below
            counts.append(float(at_most))
        return Buckets(bounds, (*counts, float(answers)))

    def _latency(self, share: float, ar_seconds: float, answers: int, ar_answers: int) -> LengthBucket:
        mean, deviation = ar_seconds * self.truth.latency_ratio, self.truth.latency_deviation
        count, ar_count = (binomial(self.random, n, share) for n in (answers, ar_answers))
        return LengthBucket(
            diffusion=moments(self.random, count, mean=mean, deviation=deviation * mean),
            ar=moments(self.random, ar_count, mean=ar_seconds, deviation=deviation * ar_seconds),
        )
