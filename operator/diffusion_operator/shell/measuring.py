"""Reading metrics beside the passes: a metrics store that hangs must not keep a deleted Deployment from coming back.

A pass never waits for metrics. It says when they should be read next; the reading wakes the loop when it is there, and the
next pass takes it along: a look costs one reading and one pass.
"""

import asyncio
import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from datetime import datetime

import structlog

from diffusion_operator.adapters import clock
from diffusion_operator.adapters.metrics import Metrics, ModelKey, unreadable
from diffusion_operator.adapters.own_writes import Version
from diffusion_operator.api.models import RolloutState
from diffusion_operator.core.rollout import Intent, Reading, Run, are_answered, windows

_READINGS_AT_ONCE = 8

InPlace = tuple[str, frozenset[Version]]
"""What children are made of, and their versions."""

# Looks that are far off are made together: one after the other they cost a third less than each by itself in between.
_TOGETHER_FROM_SECONDS = 60.0
_TOGETHER_SECONDS = 4.0

# The adapter has shorter ones of its own; this is for a mistake in it.
_LONGEST_READING_SECONDS = 120.0


@dataclass(slots=True)
class Memory:
    """What a loop knows of its resource that is in no status. A restart loses nothing but observed time.

    `wake` makes the loop pass again. `in_place` is what children were made of, and at which versions, when all were
    found as they must be. `needs_gateways`: the decision before depended on what they have in force. `look_due` is when metrics should be read next, on the monotonic clock. `runs` is None before the
    first pass. `starts` are begins of steps that wait for their first reading.
    """

    wake: Callable[[], None]
    in_place: InPlace | None = None
    needs_gateways: bool = False
    look_due: float = float("-inf")
    runs: Mapping[str, Run] | None = None
    starts: Mapping[str, datetime] = field(default_factory=dict)
    readings: Mapping[str, Reading] | None = None
    task: asyncio.Task[None] | None = field(default=None, repr=False)
    timer: asyncio.TimerHandle | None = field(default=None, repr=False)

    def take_readings(self, state: RolloutState) -> Mapping[str, Reading] | None:
        """The readings that were made since the last pass; None when there are none, or they are of a step that is over."""
        readings, self.readings = self.readings, None
        return readings if readings is not None and are_answered(readings, state, starts=self.starts) else None

    def look_in(self, seconds: float | None) -> None:
        """Have metrics read after so long; None: not before something happens."""
        due = math.inf if seconds is None else clock.monotonic() + seconds
        if seconds is not None and seconds >= _TOGETHER_FROM_SECONDS:
            due = math.ceil(due / _TOGETHER_SECONDS) * _TOGETHER_SECONDS
        self.look_due = due

    def look_soon(self) -> None:
        """Have metrics read by the next pass, whenever that was due."""
        self.look_due = float("-inf")
        self.wake()

    @property
    def is_reading(self) -> bool:
        """Whether metrics are being read now."""
        return self.task is not None and not self.task.done()

    def close(self) -> None:
        """End what is still being read, or would be."""
        if self.timer:
            self.timer.cancel()
        if self.task:
            self.task.cancel()


class Measuring:
    """Reads metrics for all loops, a few at a time."""

    def __init__(self, metrics: Metrics) -> None:
        self._metrics = metrics
        self._slots = asyncio.Semaphore(_READINGS_AT_ONCE)
        self._log = structlog.get_logger("measuring")

    def plan(self, memory: Memory, model: ModelKey, state: RolloutState, intent: Intent) -> None:
        """Read metrics when a look is due, if anything is observed. What was planned before is forgotten."""
        if memory.timer:
            memory.timer.cancel()
            memory.timer = None
        if memory.is_reading or memory.look_due == math.inf:
            return
        if not windows(state, intent.policy, starts=memory.starts, now=clock.now()):
            return

        def start() -> None:
            memory.task = asyncio.create_task(
                self._read(memory, model, state, intent, starts=memory.starts),
                name=f"metrics of {model.namespace}/{model.name}",
            )

        pause = memory.look_due - clock.monotonic()
        if pause <= 0:
            start()
        else:
            memory.timer = asyncio.get_running_loop().call_later(pause, start)

    async def _read(
        self, memory: Memory, model: ModelKey, state: RolloutState, intent: Intent, *, starts: Mapping[str, datetime]
    ) -> None:
        async with self._slots:
            now = clock.now()
            asked = windows(state, intent.policy, starts=starts, now=now)
            try:
                async with asyncio.timeout(_LONGEST_READING_SECONDS):
                    found = await self._metrics.readings(model, asked, ar=intent.ar, policy=intent.policy, now=now)
            except TimeoutError:
                found = unreadable(asked, f"no answer in {_LONGEST_READING_SECONDS:.0f} seconds")
            except Exception as error:  # noqa: BLE001
                # One resource's reading must not end unheard: its gates say so, the log has the place.
                self._log.exception("metrics not read", namespace=model.namespace, model=model.name)
                found = unreadable(asked, f"reading failed by a mistake of ours ({type(error).__name__}: {error})")
        memory.readings = found
        memory.wake()
