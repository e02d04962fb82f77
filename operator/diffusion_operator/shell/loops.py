"""One loop per resource: woken by changes, by its own appointment, and at least every ten minutes.

Why not kopf's daemons: they put a finalizer on each resource, and a resource with a finalizer cannot be deleted while
no operator runs. Everything we make has an owner reference, so there is nothing for us to do at deletion, and `kubectl
delete` works with the operator gone.
"""

import asyncio
import math
import random
from collections.abc import Iterable
from dataclasses import dataclass, field

import structlog

from diffusion_operator.adapters import clock
from diffusion_operator.adapters.errors import AdapterError, ConflictError, TransientError
from diffusion_operator.adapters.own_writes import OwnWrites, Version
from diffusion_operator.api.models import Phase

from .measuring import Memory
from .metrics import Metrics
from .reconcile import Passed, Reconciler

# Watches tell of every change; this is for what they may have missed.
RESYNC_SECONDS = 600.0
_FIRST_BACKOFF_SECONDS = 1.0
_LONGEST_BACKOFF_SECONDS = 60.0
# A refused child is tried again less and less often: a quota may be raised, a policy changed.
_LONGEST_REFUSED_SECONDS = 300.0
# A pass takes well under a second; one that takes this long hangs, whatever it waits for.
_LONGEST_PASS_SECONDS = 300.0
_GRACE_SECONDS = 60.0
# After a restart all loops start at once. The API server serves many more than this.
_PASSES_AT_ONCE = 16

Key = tuple[str, str]


@dataclass(slots=True)
class _Loop:
    """A running loop.

    `due` is when it should be heard of next, on the monotonic clock. `heard` are changes that were told since the pass
    began: they wake the loop unless they turn out to be our own. `is_asked`: it passes in any case. `has_told_refusal` is true when the last pass was
    followed by another at once, for the sake of a new refusal.
    """

    due: float
    memory: Memory = field(init=False)
    wake: asyncio.Event = field(default_factory=asyncio.Event)
    heard: list[Version] = field(default_factory=list)
    is_asked: bool = False
    task: asyncio.Task[None] | None = None
    phase: Phase | None = None
    rejected: str = ""
    has_told_refusal: bool = False
    failures: int = 0

    def __post_init__(self) -> None:
        self.memory = Memory(wake=self.ask)

    def ask(self) -> None:
        """Pass as soon as may be."""
        self.is_asked = True
        self.wake.set()

    def tell(self, version: Version | None) -> None:
        """Something was changed; None when no version tells whether it was us."""
        if version is None:
            self.ask()
        else:
            self.heard.append(version)
            self.wake.set()

    def begin(self) -> None:
        """What was told up to now will be seen by the pass that begins."""
        self.wake.clear()
        self.heard.clear()
        self.is_asked = False

    async def news(self, own_writes: OwnWrites) -> None:
        """Return when there is something that this process did not write."""
        while True:
            await self.wake.wait()
            if self.is_asked or any(version not in own_writes for version in self.heard):
                return
            self.begin()


class Loops:
    """All loops of the operator, by namespace and name."""

    def __init__(self, reconciler: Reconciler, metrics: Metrics, *, own_writes: OwnWrites | None = None) -> None:
        self._reconciler = reconciler
        self._metrics = metrics
        self._own_writes = own_writes or OwnWrites()
        self._loops: dict[Key, _Loop] = {}
        self._slots = asyncio.Semaphore(_PASSES_AT_ONCE)
        self._log = structlog.get_logger("loops")

    def wake_or_start(self, namespace: str, name: str, *, version: Version | None = None) -> None:
        """A resource is there or was changed. One whose `version` we wrote wakes nobody."""
        key = (namespace, name)
        loop = self._loops.get(key)
        if loop is None:
            loop = self._loops[key] = _Loop(due=clock.monotonic() + _LONGEST_PASS_SECONDS)
            loop.task = asyncio.create_task(self._run(key, loop), name=f"loop of {namespace}/{name}")
        loop.tell(version)

    def wake(self, namespace: str, name: str, *, version: Version | None = None) -> None:
        """A child of a resource was changed."""
        loop = self._loops.get((namespace, name))
        if loop:
            loop.tell(version)

    def look_soon(self, keys: Iterable[Key]) -> None:
        """Something is the matter with these resources: their metrics are read now, not at the next appointment."""
        for key in keys:
            if loop := self._loops.get(key):
                loop.memory.look_soon()

    def overdue(self) -> list[str]:
        """Resources whose loop should have been heard of, as `namespace/name`."""
        now = clock.monotonic()
        late = [
            f"{namespace}/{name}"
            for (namespace, name), loop in self._loops.items()
            if now > loop.due + _GRACE_SECONDS or (loop.task is not None and loop.task.done())
        ]
        self._metrics.overdue.set(len(late))
        return late

    async def stop(self) -> None:
        """End all loops. What they were writing is either written or will be at the next start."""
        loops = list(self._loops.values())
        tasks = [task for loop in loops for task in (loop.task, loop.memory.task) if task]
        self._loops.clear()
        for loop in loops:
            loop.memory.close()
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    async def _run(self, key: Key, loop: _Loop) -> None:
        while True:
            loop.begin()
            # Whoever waits for a slot is late by no fault of its own: those that have one are watched.
            loop.due = math.inf
            async with self._slots:
                loop.due = clock.monotonic() + _LONGEST_PASS_SECONDS
                pause = await self._pass(key, loop)
            if pause is None:
                if loop.wake.is_set():
                    continue  # it may have been made anew while we found it gone
                loop.memory.close()
                del self._loops[key]
                self._count_models()
                return
            loop.due = clock.monotonic() + pause
            try:
                async with asyncio.timeout(pause):
                    await loop.news(self._own_writes)
            except TimeoutError:
                pass

    async def _pass(self, key: Key, loop: _Loop) -> float | None:
        """Make one pass. Returns the seconds until the next, None when the resource is gone."""
        namespace, name = key
        log = self._log.bind(namespace=namespace, model=name)
        started = clock.monotonic()
        try:
            async with asyncio.timeout(_LONGEST_PASS_SECONDS):
                passed = await self._reconciler.run_once(namespace, name, memory=loop.memory, rejected=loop.rejected)
        except ConflictError as error:
            outcome, pause = "conflict", random.uniform(0.05, 0.3)  # noqa: S311 - spreads retries, hides nothing
            log.info("written by someone else, deciding again", error=str(error))
        except (TransientError, TimeoutError) as error:
            outcome, pause = "transient", self._backoff(loop, asked=getattr(error, "retry_after_seconds", None))
            log.warning("pass failed", error=str(error) or "the pass took too long", retry_seconds=round(pause, 1))
        except AdapterError as error:
            outcome, pause = "rejected", self._backoff(loop)
            log.warning("the API server refused", error=str(error), retry_seconds=round(pause, 1))
        except Exception:
            # One resource must not end the loops of others; the metric and the log tell.
            outcome, pause = "error", self._backoff(loop)
            log.exception("pass failed by a mistake of ours", retry_seconds=round(pause, 1))
        else:
            outcome, pause = self._after(loop, passed)
        self._metrics.reconciles.labels(outcome=outcome).inc()
        self._metrics.reconcile_seconds.observe(clock.monotonic() - started)
        return None if outcome == "gone" else pause

    def _after(self, loop: _Loop, passed: Passed) -> tuple[str, float]:
        if passed.phase is None:
            return "gone", 0.0
        if passed.phase is not loop.phase:
            loop.phase = passed.phase
            self._count_models()
        loop.rejected = passed.rejected
        if passed.rejected:
            pause = self._backoff(loop, longest=_LONGEST_REFUSED_SECONDS)
            # A new refusal is told at once, but not one after the other: some servers refuse in new words each time.
            loop.has_told_refusal = passed.look_again_seconds == 0 and not loop.has_told_refusal
            return "rejected", 0.0 if loop.has_told_refusal else pause
        loop.failures = 0
        loop.has_told_refusal = False
        if passed.look_again_seconds is not None:
            return "ok", passed.look_again_seconds
        return "ok", RESYNC_SECONDS * random.uniform(0.9, 1.1)  # noqa: S311 - spreads load, hides nothing

    def _backoff(self, loop: _Loop, *, asked: float | None = None, longest: float = _LONGEST_BACKOFF_SECONDS) -> float:
        """Seconds to wait after a failure: twice as long each time, or as long as the server asked for."""
        seconds = min(_FIRST_BACKOFF_SECONDS * 2.0 ** min(loop.failures, 16), longest)
        loop.failures += 1
        return max(asked or 0.0, seconds * random.uniform(0.8, 1.2))  # noqa: S311 - spreads retries, hides nothing

    def _count_models(self) -> None:
        self._metrics.count_models(loop.phase for loop in self._loops.values())
