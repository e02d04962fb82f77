"""The operator's process, started again whenever it ends, as kubelet would."""

import asyncio
import random
from collections.abc import Callable

from diffusion_operator.core.rollout import Pace
from diffusion_operator.shell import process
from diffusion_operator.shell.settings import OperatorSettings

from tests.sim.fake_metrics import FakeMetrics

from .server import ApiServer


class Life:
    """All of the operator's processes, one after the other. `good_seconds` is how long one lived and could read metrics."""

    def __init__(
        self, settings: OperatorSettings, *, api: ApiServer, store: FakeMetrics, pace: Pace, chance: random.Random
    ) -> None:
        self._settings = settings
        self._api = api
        self._store = store
        self._pace = pace
        self._chance = chance
        self._good = 0.0
        self._good_since: float | None = None
        self._task: asyncio.Task[None] | None = None
        self._stop = asyncio.Event()
        self.ends: list[str] = []

    async def run(self) -> None:
        """Until cancelled."""
        try:
            while True:
                self._stop = asyncio.Event()
                self._task = asyncio.create_task(
                    process.run(self._settings, stop=self._stop, measurements=self._store, pace=self._pace)
                )
                self.account()
                await asyncio.wait({self._task})
                self._note(self._task)
                self._task = None
                self.account()
                self._api.weather.is_cut = False
                await asyncio.sleep(self._chance.uniform(2, 600))
        finally:
            self._stop.set()
            if self._task:
                await asyncio.wait({self._task})
                self._note(self._task)

    def end(self) -> None:
        """SIGTERM."""
        self._stop.set()

    def kill(self) -> None:
        """As SIGKILL: nothing that the process does from now on is heard."""
        if self._task:
            self._api.weather.is_cut = True
            self._api.end_watches()
            self._task.cancel()

    def set_metrics(self, change: Callable[[FakeMetrics], None]) -> None:
        change(self._store)
        self.account()

    def account(self) -> None:
        """Something began or ended that good time depends on."""
        now = asyncio.get_running_loop().time()
        if self._good_since is not None:
            self._good += now - self._good_since
        is_good = self._task is not None and not (self._store.is_down or self._store.hangs)
        self._good_since = now if is_good else None

    def good_seconds(self) -> float:
        self.account()
        return self._good

    def _note(self, task: asyncio.Task[None]) -> None:
        error = None if task.cancelled() else task.exception()
        self.ends.append("killed" if task.cancelled() else type(error).__name__ if error else "stopped")
