"""Draws samples, keeps them within limits, has them compared one after another and counts what comes of it."""

import asyncio
import traceback
from collections.abc import Callable
from dataclasses import dataclass, field

import structlog
from diffusion_operator.api.status import ArmKind, RouteArm

from ..answers import Answer
from ..metrics.pairs import PairMetrics
from ..question import Question
from ..reasons import Reason
from ..routes import Model, Random, ar_arm
from .ar_side import ArSide
from .compare import Pair, compare
from .counting import count_dropped, count_pair
from .drops import Drop, DroppedError
from .sample import Drawn, Recording, Sample, is_comparable

# Of one model at once: as many as an idle AR engine answers together without trouble; the others wait behind them.
_AT_ONCE = 4
# Of all models together, which bounds the memory to 16 MiB.
_IN_ALL = 64
# Each model may have this share of the room that is left, and one in any case: alone it has 16, and those whose AR pods hang
# never take all of it.
_SHARE_OF_ROOM = 1 / 3
# A pod that is busy with live requests turns background ones away at once: it is asked again after these pauses.
_PAUSES_SECONDS = (1.0, 5.0, 20.0)
_BUSY = frozenset({Reason.OVERLOADED, Reason.PREEMPTED, Reason.QUEUE_FULL})

_log = structlog.get_logger()


@dataclass
class _Lane:
    """The samples of one model: one whose AR pods hang must not stop the others."""

    samples: int = 0
    turn: asyncio.Semaphore = field(default_factory=lambda: asyncio.Semaphore(_AT_ONCE))


class Pairs:
    """Everything here happens off the request path: no request waits for it."""

    def __init__(
        self,
        *,
        metrics: PairMetrics,
        ar_side: Callable[[Model, RouteArm], ArSide],
        can_score: Callable[[Drawn], bool] = lambda _: True,
        random: Random,
        pauses_seconds: tuple[float, ...] = _PAUSES_SECONDS,
    ) -> None:
        """`ar_side`: how to reach an AR arm of a model, `can_score`: whether it scores texts after such a prompt. `random` draws samples."""
        self._metrics = metrics
        self._can_score = can_score
        self._ar_side = ar_side
        self._random = random
        self._pauses_seconds = pauses_seconds
        self._lanes: dict[str, _Lane] = {}
        self._tasks: set[asyncio.Task[None]] = set()
        self._stopped = False

    def watch(self, question: Question, answer: Answer, *, is_first_choice: bool) -> None:
        """Perhaps compare this answer once it is complete. `is_first_choice`: no other arm was to answer."""
        if (recording := self._draw(question, answer, is_first_choice=is_first_choice)) is not None:
            answer.listen(recording.see)

    def watch_refused(self, question: Question, answer: Answer, *, is_first_choice: bool) -> None:
        """Perhaps compare what was read of an answer that is not good enough to be sent: without those the others look too good."""
        if (recording := self._draw(question, answer, is_first_choice=is_first_choice)) is not None:
            for event in answer.read_ahead:
                recording.see(event)
            recording.refuse()

    def stop(self) -> None:
        """Give up all that waits or runs, and take nothing any more."""
        self._stopped = True
        for task in self._tasks:
            task.cancel()

    async def close(self) -> None:
        """Stop, and wait for the end of what ran."""
        self.stop()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    def _draw(self, question: Question, answer: Answer, *, is_first_choice: bool) -> Recording | None:
        model, ar = question.model, ar_arm(question.model.arms)
        if self._stopped or ar is None or ar.kind != ArmKind.AR:
            return None
        if not is_comparable(question, answer.arm, is_first_choice=is_first_choice):
            return None
        if self._random() * 100 >= model.sample_percent:
            return None
        drawn = Drawn(model=model, arm=answer.arm, ar=ar, request=question.requests[0])
        return Recording(drawn, self._take) if self._can_score(drawn) else None

    def _take(self, sample: Sample) -> None:
        key = sample.drawn.model.key
        waiting, room = self._lanes[key].samples if key in self._lanes else 0, _IN_ALL - len(self._tasks)
        if self._stopped:
            self._drop(sample, Reason.GATEWAY_STOPS)
        elif sample.is_too_large:
            self._drop(sample, Drop.TOO_LARGE)
        elif room <= 0 or waiting >= max(1, int(room * _SHARE_OF_ROOM)):
            self._drop(sample, Drop.QUEUE_FULL)
        else:
            self._start(sample, self._lanes.setdefault(key, _Lane()))

    def _start(self, sample: Sample, lane: _Lane) -> None:
        task = asyncio.create_task(self._work(sample, lane))
        self._tasks.add(task)
        lane.samples += 1
        self._metrics.waiting.set(len(self._tasks))
        task.add_done_callback(lambda task: self._ended(task, sample))

    async def _work(self, sample: Sample, lane: _Lane) -> None:
        try:
            async with lane.turn:
                pair = await self._compared(sample)
        except DroppedError as error:
            self._drop(sample, error.reason)
        else:
            count_pair(self._metrics, sample, pair)

    async def _compared(self, sample: Sample) -> Pair:
        """Asks again while AR has no time for it. Raises `DroppedError`."""
        ar = self._ar_side(sample.drawn.model, sample.drawn.ar)
        for pause_seconds in self._pauses_seconds:
            try:
                return await compare(sample, ar)
            except DroppedError as error:
                if error.reason not in _BUSY:
                    raise
            await asyncio.sleep(pause_seconds)
        return await compare(sample, ar)

    def _ended(self, task: "asyncio.Task[None]", sample: Sample) -> None:
        self._tasks.discard(task)
        self._metrics.waiting.set(len(self._tasks))
        key = sample.drawn.model.key
        self._lanes[key].samples -= 1
        if not self._lanes[key].samples:
            del self._lanes[key]
        if task.cancelled():
            self._drop(sample, Reason.GATEWAY_STOPS)
        elif (error := task.exception()) is not None:
            # Neither its message nor its variables: both may quote the prompt.
            where = [f"{frame.name}:{frame.lineno}" for frame in traceback.extract_tb(error.__traceback__)]
            _log.error("a comparison failed by a mistake of ours", error=type(error).__name__, where=where)
            self._drop(sample, Drop.FAILED)

    def _drop(self, sample: Sample, reason: str) -> None:
        count_dropped(self._metrics, sample, reason)
