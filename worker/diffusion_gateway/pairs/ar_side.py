"""The AR model that answers and scores: our own pods, or a server of others, which the pool sees as one."""

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Protocol

from diffusion_worker.wire import (
    BlockEvent,
    ErrorEvent,
    FinishEvent,
    GenerateRequest,
    ScoreEvent,
    ScoreRequest,
)

from ..answers import Choice, Timer, refusal
from ..event_stream import EventStream
from ..pool import WorkerPool
from ..reasons import Reason, WorkerError
from ..tally import Tally

# Longer than any answer that is compared takes on an idle pod; what waits longer behind live requests is given up.
_CALL_SECONDS = 120.0


@dataclass(frozen=True)
class ArAnswer:
    """A complete answer of the AR model."""

    text: str
    finish: FinishEvent


class ArSide(Protocol):
    """What a comparison needs of the AR model. Both calls raise `WorkerError`, or `ApiError` for what it never takes."""

    async def answer(self, request: GenerateRequest) -> ArAnswer:
        """Answer in the background."""

    async def score(self, request: ScoreRequest) -> ScoreEvent:
        """How likely it finds a text after a prompt."""


class WorkerArSide:
    """What the pool reaches of an AR arm."""

    def __init__(
        self,
        *,
        pool: WorkerPool,
        targets: Callable[[], Sequence[str]],
        revision: str,
        timed: Callable[[Tally, float], None] = lambda _tally, _asked_at: None,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        """`targets`: what is ready now, as the pool calls it. `timed` is told of each answer, and when it was asked for."""
        self._pool = pool
        self._targets = targets
        self._revision = revision
        self._timed = timed
        self._clock = clock

    async def answer(self, request: GenerateRequest) -> ArAnswer:
        """Answer in the background."""
        asked_at = self._clock()
        timer = Timer(self._clock, silence_seconds=_CALL_SECONDS, deadline=asked_at + _CALL_SECONDS)
        choice = Choice(
            stream=self._open(request),
            timer=timer,
            count=lambda tally: self._timed(tally, asked_at),
            broke_off=lambda _: None,
        )
        texts: list[str] = []
        try:
            async for event in choice.events():
                match event:
                    case BlockEvent():
                        texts.append(event.text)
                    case FinishEvent():
                        return ArAnswer("".join(texts), event)
        finally:
            choice.close()
        raise WorkerError(Reason.ENGINE_ERROR, "the answer has no end")

    async def score(self, request: ScoreRequest) -> ScoreEvent:
        """How likely the model finds a text after a prompt."""
        stream = self._open(request)
        try:
            event = await stream.next(timeout_seconds=_CALL_SECONDS)
        finally:
            stream.close()
        match event:
            case ScoreEvent():
                return event
            case ErrorEvent():
                raise refusal(event)
        raise WorkerError(Reason.ENGINE_ERROR, f"the worker answered a score with a {event.type}")

    def _open(self, request: GenerateRequest | ScoreRequest) -> EventStream:
        targets = self._pool.by_load(self._targets())
        if not targets:
            raise WorkerError(Reason.NO_READY_POD, "no pod is ready")
        return self._pool.open(targets[0], request, revision=self._revision)
