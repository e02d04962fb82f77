"""What befalls a rollout in three weeks: drawn from a seed, several times a day."""

import asyncio
import random
from collections import Counter
from dataclasses import replace
from datetime import timedelta

from .life import Life
from .server import ApiServer, Weather

HOUR = 3600.0
# Beyond this a jump is told apart from a late look; what is below it counts as time, and a test must allow for it.
SMALL_JUMP = 30.0


class WallClock:
    """Jumps where monotonic clocks do not."""

    def __init__(self) -> None:
        self.ahead = timedelta()

    async def be_wrong(self, seconds: float, *, hours: float) -> None:
        """Wrong for so long, then put right."""
        self.ahead += timedelta(seconds=round(seconds))
        await asyncio.sleep(hours * HOUR)
        self.ahead -= timedelta(seconds=round(seconds))


class Fortune:
    """Disturbs until cancelled. `suffered` counts what happened."""

    def __init__(self, *, api: ApiServer, life: Life, wall: WallClock, chance: random.Random) -> None:
        self._api = api
        self._life = life
        self._wall = wall
        self._chance = chance
        self.suffered: Counter[str] = Counter()
        self._usual = Weather(conflict=0.01, throttled=0.01, failing=0.01, failing_after_the_write=0.01, duplicates=0.1)

    async def run(self) -> None:
        self._api.weather = replace(self._usual)
        blows = [
            *(self._restart, self._kill, self._storm, self._watches, self._expired, self._no_metrics),
            *(self._clock, self._clock_and_kill),
        ]
        while True:
            # Each kind comes once before any comes again, so that three weeks have them all.
            for blow in self._chance.sample(blows, len(blows)):
                await asyncio.sleep(self._chance.expovariate(1 / (5 * HOUR)))
                self.suffered[blow.__name__.strip("_")] += 1
                await blow()

    async def _restart(self) -> None:
        self._life.end()

    async def _kill(self) -> None:
        self._life.kill()

    async def _storm(self) -> None:
        """Minutes in which most requests fail."""
        self._api.weather = Weather(conflict=0.3, throttled=0.2, failing=0.2, failing_after_the_write=0.2)
        await asyncio.sleep(self._chance.uniform(60, 1200))
        self._api.weather = replace(self._usual, is_cut=self._api.weather.is_cut)

    async def _watches(self) -> None:
        self._api.end_watches()

    async def _expired(self) -> None:
        """410: watches end, and what they saw last is too old to go on from."""
        self._api.forget_changes()
        self._api.end_watches()

    async def _no_metrics(self) -> None:
        what = self._chance.choice(["is_down", "hangs"])
        self._life.set_metrics(lambda store: setattr(store, what, True))
        await asyncio.sleep(self._chance.uniform(1.2, 6) * HOUR)  # longer than from one look to the next
        self._life.set_metrics(lambda store: setattr(store, what, False))

    async def _clock(self) -> None:
        seconds = self._chance.choice([-90_000.0, -4000.0, -SMALL_JUMP, SMALL_JUMP, 20_000.0, 2_000_000.0])
        await self._wall.be_wrong(seconds, hours=self._chance.uniform(0.1, 3))

    async def _clock_and_kill(self) -> None:
        """The process ends while its clock is days ahead; the next one has the right time."""
        asyncio.get_running_loop().call_later(0.5 * HOUR, self._life.kill)
        await self._wall.be_wrong(2_000_000.0, hours=0.5)
