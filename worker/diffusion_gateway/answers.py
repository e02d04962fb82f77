"""What one arm says to a request: one row per choice, each an `EventStream`, seen as one."""

import asyncio
import math
from collections import deque
from collections.abc import AsyncIterator, Callable, Coroutine, Sequence
from dataclasses import dataclass
from typing import Any

from diffusion_operator.api.status import RouteArm
from diffusion_worker.wire import BlockEvent, DraftEvent, ErrorEvent, FinishEvent, ScoreEvent

from .event_stream import EventStream
from .openai.errors import ApiError
from .reasons import Reason, WorkerError
from .tally import Tally

_CLIENTS_NAMES = {"prompt_token_ids": "prompt"}


@dataclass(frozen=True)
class Timer:
    clock: Callable[[], float]
    silence_seconds: float
    deadline: float

    def wait(self, seconds: float | None) -> float:
        """How long the next event may take."""
        usual = self.silence_seconds if seconds is None else seconds
        return max(0.0, min(usual, self.deadline - self.clock()))


class Choice:
    """One row that speaks. Read `events` once; `close` must follow, whatever happens."""

    def __init__(
        self,
        *,
        stream: EventStream,
        timer: Timer,
        count: Callable[[Tally], None],
        broke_off: Callable[[Reason], None] | None = None,
    ) -> None:
        """`count` is told once the row has ended by itself, whether or not its text is good enough to be sent.

        `broke_off` is told when the row fails after `read_ahead`.
        """
        self.tally = Tally()
        self.first_event_at = math.inf
        """On the timer's clock."""
        self._broke_off = broke_off
        self._stream = stream
        self._timer = timer
        self._count = count
        self._ahead: deque[BlockEvent | DraftEvent | FinishEvent] = deque()
        self.listener: Callable[[BlockEvent | DraftEvent | FinishEvent], None] | None = None
        """Sees each event just before the reader of `events`."""

    async def events(self) -> AsyncIterator[BlockEvent | DraftEvent | FinishEvent]:
        """Blocks, and drafts between them, then one `FinishEvent`.

        Raises:
            WorkerError: the worker stopped in the middle.
        """
        finished = False
        while not finished:
            try:
                event = self._ahead.popleft() if self._ahead else await self._next(wait_seconds=None)
            except WorkerError as error:
                if self._broke_off is not None:
                    self._broke_off(error.reason)
                raise
            finished = isinstance(event, FinishEvent)
            if self.listener is not None:
                self.listener(event)
            yield event

    @property
    def ahead(self) -> Sequence[BlockEvent | DraftEvent | FinishEvent]:
        """What `read_ahead` has read and `events` has not yet given."""
        return tuple(self._ahead)

    async def read_ahead(self, *, whole: bool, wait_seconds: float | None) -> None:
        """Read up to the first event that shows something, or all of them, before `events` is used.

        Raises:
            WorkerError: the worker failed, or sent no first event for `wait_seconds` (None: the usual silence).
            ApiError: the worker refuses the request; nobody else would take it.
        """
        event = await self._next(wait_seconds=wait_seconds)
        self.first_event_at = self._timer.clock()
        self._ahead.append(event)
        while not isinstance(event, FinishEvent) and (whole or not _shows_something(event)):
            event = await self._next(wait_seconds=None)
            self._ahead.append(event)

    async def _next(self, *, wait_seconds: float | None) -> BlockEvent | DraftEvent | FinishEvent:
        event = await self._stream.next(timeout_seconds=self._timer.wait(wait_seconds))
        if isinstance(event, ErrorEvent):
            raise refusal(event)
        if isinstance(event, ScoreEvent):
            raise WorkerError(Reason.ENGINE_ERROR, "the worker sent a score, which nobody asked for")
        if isinstance(event, DraftEvent):
            return event
        self.tally.add(event, now=self._timer.clock())
        if isinstance(event, FinishEvent):
            self.tally.ended_at, self.tally.held_up = self._stream.ended_at, self._stream.held_up
            self._count(self.tally)
        return event

    def close(self) -> None:
        """Free the row if it is still running."""
        self._stream.close()


class Answer:
    """An arm that speaks: all choices of a request. Read `events` once; `close` must follow, whatever happens."""

    def __init__(self, *, arm: RouteArm, choices: Sequence[Choice], asked_at: float) -> None:
        """`asked_at`: when this arm was asked, on the dispatcher's clock."""
        self.arm = arm
        self.asked_at = asked_at
        self._choices = choices

    @property
    def rows(self) -> list[Tally]:
        """What was seen of each choice so far."""
        return [choice.tally for choice in self._choices]

    @property
    def first_text_at(self) -> float | None:
        """On the dispatcher's clock."""
        texts = (choice.tally.first_text_at for choice in self._choices)
        return min((each for each in texts if each is not None), default=None)

    @property
    def read_ahead(self) -> Sequence[BlockEvent | DraftEvent | FinishEvent]:
        """Events of the first choice that were read before anybody asked for them."""
        return self._choices[0].ahead

    def listen(self, listener: Callable[[BlockEvent | DraftEvent | FinishEvent], None]) -> None:
        """Let `listener` see the first choice's events, each just before whoever reads them."""
        self._choices[0].listener = listener

    async def events(self) -> AsyncIterator[tuple[int, BlockEvent | DraftEvent | FinishEvent]]:
        """Events with the number of their choice, as they come: of each choice blocks, then one `FinishEvent`.

        Raises:
            WorkerError: a worker stopped in the middle.
        """
        if len(self._choices) == 1:
            async for only in self._choices[0].events():
                yield 0, only
            return
        streams = [choice.events() for choice in self._choices]

        async def next_of(index: int) -> tuple[int, BlockEvent | DraftEvent | FinishEvent | None]:
            return index, await anext(streams[index], None)

        done: set[asyncio.Task[tuple[int, BlockEvent | DraftEvent | FinishEvent | None]]] = set()
        waiting = {asyncio.ensure_future(next_of(index)) for index in range(len(streams))}
        try:
            while waiting:
                done, waiting = await asyncio.wait(waiting, return_when=asyncio.FIRST_COMPLETED)
                for index, event in sorted((task.result() for task in done), key=lambda item: item[0]):
                    if event is not None:
                        yield index, event
                        waiting.add(asyncio.ensure_future(next_of(index)))
        finally:
            for task in waiting:
                task.cancel()
            await asyncio.gather(*waiting, *done, return_exceptions=True)

    def close(self) -> None:
        """Free the rows that are still running."""
        for choice in self._choices:
            choice.close()


async def all_or_none(works: Sequence[Coroutine[Any, Any, Choice]]) -> list[Choice]:
    """Every choice; when one of them fails, its error, and the others are closed."""
    if len(works) == 1:
        return [await works[0]]
    tasks = [asyncio.ensure_future(work) for work in works]
    try:
        return await asyncio.gather(*tasks)
    except BaseException:
        for task in tasks:
            task.cancel()
        for result in await asyncio.gather(*tasks, return_exceptions=True):
            if isinstance(result, Choice):
                result.close()
        raise


def refusal(event: ErrorEvent) -> WorkerError | ApiError:
    match event.code:
        case "invalid_request" | "context_length_exceeded":
            code = "invalid_value" if event.code == "invalid_request" else event.code
            param = _CLIENTS_NAMES.get(event.param, event.param) if event.param else None
            return ApiError(400, event.message, code=code, param=param)
        case "shutting_down" | "cancelled":
            return WorkerError(Reason.UNAVAILABLE, event.message)
        case "non_finite" | "out_of_memory" | "wrong_revision" | "preempted" | "overloaded":
            return WorkerError(Reason(event.code), event.message)
    return WorkerError(Reason.ENGINE_ERROR, event.message)


def _shows_something(event: BlockEvent | DraftEvent) -> bool:
    """A block may hold its text back, for a stop string or half a character."""
    return isinstance(event, DraftEvent) or bool(event.text or event.logprobs)
