"""A metrics store in memory: what it says, and how long it takes to say it, is the test's choice."""

import asyncio
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime

from diffusion_operator.adapters.metrics import ModelKey, unreadable
from diffusion_operator.core.gates import Quality, Speed
from diffusion_operator.core.rollout import Policy, Reading, Window
from diffusion_operator.core.verdict import Buckets, LengthBucket, Moments, Proportion

_COUNT = 100_000.0


@dataclass
class FakeMetrics:
    """Implements `Metrics`. Every attribute may be changed at any time."""

    is_down: bool = False
    hangs: bool = False
    repetition: float = 0.02
    suspects: set[ModelKey] = field(default_factory=set)
    readings_made: int = 0

    async def readings(
        self, model: ModelKey, windows: tuple[Window, ...], *, ar: str | None, policy: Policy, now: datetime
    ) -> Mapping[str, Reading]:
        self.readings_made += 1
        if self.hangs:
            await asyncio.get_running_loop().create_future()
        await asyncio.sleep(0.2)
        if self.is_down:
            return unreadable(windows, "Prometheus does not answer")
        return {window.revision: self._reading(window) for window in windows}

    async def suspicious(self, *, now: datetime) -> frozenset[ModelKey]:
        return frozenset(self.suspects)

    def _reading(self, window: Window) -> Reading:
        speed = Speed(
            first_token=Buckets((0.25, 0.5, float("inf")), (_COUNT, _COUNT, _COUNT)),
            latency=(LengthBucket(Moments(_COUNT, _COUNT, 2 * _COUNT), Moments(_COUNT, 10 * _COUNT, 101 * _COUNT)),),
            errors=Proportion(_COUNT, 0),
        )
        quality = Quality(
            pairs=Moments(_COUNT, 0.0, 0.1 * _COUNT), repetition=Proportion(_COUNT, self.repetition * _COUNT)
        )
        return Reading(window, quality=quality, speed=speed, guard=speed)
