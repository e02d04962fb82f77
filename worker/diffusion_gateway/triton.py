"""Streams events from worker pods. All of Triton's and gRPC's peculiarities end here."""

import asyncio
import contextlib
import time
from collections.abc import AsyncIterator, Callable
from typing import Any

import grpc
import numpy as np
import structlog
from diffusion_worker.wire import (
    EVENT,
    EVENT_TENSOR,
    MODEL_NAME,
    REQUEST_TENSOR,
    REVISION_PARAMETER,
    SCORE_PRIORITY,
    TRACEPARENT_PARAMETER,
    BlockEvent,
    DraftEvent,
    ErrorEvent,
    FinishEvent,
    GenerateRequest,
    ScoreEvent,
    ScoreRequest,
    encode_request,
)
from pydantic import ValidationError
from tritonclient.grpc import InferInput, InferResult
from tritonclient.grpc.aio import InferenceServerClient
from tritonclient.utils import InferenceServerException

from .reasons import Reason, WorkerError

Event = BlockEvent | DraftEvent | FinishEvent | ScoreEvent | ErrorEvent

_log = structlog.get_logger()

# An answer has at most a few hundred blocks; this many wait for a slow client before the pod has to.
_BUFFERED_EVENTS = 64
# Between the last event and the natural end of the stream lies one message.
_TAIL_SECONDS = 5.0


class EventStream:
    """The events of one request on one pod, ending with a `FinishEvent` (of a score: `ScoreEvent`) or `ErrorEvent`.

    A task of its own reads ahead, because a stream must be read to its natural end even when the client left on the last event:
    Triton 2.51 leaks a model reference when a stream is closed in the moment of its final response.
    """

    def __init__(
        self,
        client: InferenceServerClient,
        request: GenerateRequest | ScoreRequest,
        *,
        revision: str | None = None,
        traceparent: str | None = None,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        """`revision`: another one's worker refuses the request. `traceparent`: for the worker's log lines."""
        self.ended_at: float | None = None
        """When the last event arrived, on `clock`; it may be read later."""
        self.held_up = False
        """The pod had to wait, because events were not read as fast as they came."""
        self.has_answered = False
        """The row came to its end by itself."""
        self._clock = clock
        self._queue: asyncio.Queue[Event | WorkerError] = asyncio.Queue(_BUFFERED_EVENTS)
        self._ended = False
        self.task = asyncio.create_task(self._read(client, _item(request, revision=revision, traceparent=traceparent)))
        self.task.add_done_callback(self._report_crash)

    @property
    def has_ended(self) -> bool:
        """The row is done, or has failed; what is left of the stream is its tail."""
        return self._ended or self.task.done()

    async def next(self, *, timeout_seconds: float) -> Event:
        """The next event.

        Raises:
            WorkerError: the pod failed, or nothing came in time.
        """
        try:
            async with asyncio.timeout(timeout_seconds):
                item = await self._queue.get()
        except TimeoutError:
            raise WorkerError(Reason.TIMEOUT, f"nothing came for {timeout_seconds:g} s") from None
        if isinstance(item, WorkerError):
            raise item
        return item

    def close(self) -> None:
        """Cancel the row, unless its last event is here: then the rest of the stream is read in the background."""
        if self._ended:
            # Room for the one event that may still wait to be put.
            self._empty()
        else:
            self.task.cancel()

    def abort(self, error: WorkerError) -> None:
        """Cancel the row and let the reader see `error` next."""
        self.task.cancel()
        self._empty()
        self._queue.put_nowait(error)

    def _report_crash(self, task: "asyncio.Task[None]") -> None:
        """A mistake of ours must not let the reader wait for its timeout."""
        if not task.cancelled() and (error := task.exception()) is not None:
            _log.error("reading from a worker failed", exc_info=error)
            self._empty()
            self._queue.put_nowait(WorkerError(Reason.ENGINE_ERROR, f"reading failed: {error!r}"))

    def _empty(self) -> None:
        while not self._queue.empty():
            self._queue.get_nowait()

    async def _read(self, client: InferenceServerClient, item: dict[str, Any]) -> None:
        call = client.stream_infer(_one(item))
        try:
            async for result, error in call:
                event = _event(result, error)
                if isinstance(event, DraftEvent):
                    # Old news as soon as the next is there: who reads slowly gets fewer of them.
                    if self._queue.empty():
                        self._queue.put_nowait(event)
                    continue
                self._ended = not isinstance(event, BlockEvent)
                if self._ended:
                    self.ended_at = self._clock()
                    self.has_answered = isinstance(event, FinishEvent | ScoreEvent)
                elif self._queue.full():
                    self.held_up = True
                await self._queue.put(event)
                if self._ended:
                    break
            else:
                await self._queue.put(WorkerError(Reason.UNAVAILABLE, "the stream ended before the answer did"))
                return
            await _read_tail(call)
        except grpc.aio.AioRpcError as error:
            await self._queue.put(_from_status(error))
        finally:
            call.cancel()


async def _read_tail(call: Any) -> None:
    with contextlib.suppress(TimeoutError, grpc.aio.AioRpcError):
        async with asyncio.timeout(_TAIL_SECONDS):
            async for _ in call:
                pass


async def _one(item: dict[str, Any]) -> AsyncIterator[dict[str, Any]]:
    yield item


def _item(request: GenerateRequest | ScoreRequest, *, revision: str | None, traceparent: str | None) -> dict[str, Any]:
    """The request as tritonclient takes it."""
    tensor = InferInput(REQUEST_TENSOR, [1, 1], "BYTES")
    tensor.set_data_from_numpy(np.array([[encode_request(request)]], dtype=np.object_))
    parameters = {REVISION_PARAMETER: revision, TRACEPARENT_PARAMETER: traceparent}
    # 0: the model's default, which is the first.
    priority = SCORE_PRIORITY if isinstance(request, ScoreRequest) or request.background else 0
    return {
        "model_name": MODEL_NAME,
        "inputs": [tensor],
        "request_id": request.request_id,
        "priority": priority,
        "parameters": {name: value for name, value in parameters.items() if value is not None},
    }


def _event(result: InferResult | None, error: InferenceServerException | None) -> Event | WorkerError:
    if error is not None or result is None:
        return _from_message(str(error.message()) if error else "an empty response")
    try:
        return EVENT.validate_json(result.as_numpy(EVENT_TENSOR).item())
    except ValidationError as problem:
        # Not its text: that quotes the event, and the event holds the answer, which no log should.
        first = problem.errors(include_url=False, include_context=False, include_input=False)[0]
        where = ".".join(map(str, first["loc"])) or "the event"
        return WorkerError(Reason.ENGINE_ERROR, f"the worker sent what is no event: {where}: {first['type']}")
    except (AttributeError, ValueError) as problem:
        return WorkerError(Reason.ENGINE_ERROR, f"the worker sent what is no event: {type(problem).__name__}")


def _from_message(message: str) -> WorkerError:
    """Triton's errors inside a stream are text without a code."""
    lower = message.lower()
    if "exceeds maximum queue size" in lower or "request timeout expired" in lower:
        return WorkerError(Reason.QUEUE_FULL, message)
    if "unknown model" in lower or "no available versions" in lower or "not ready" in lower:
        return WorkerError(Reason.UNAVAILABLE, message)
    return WorkerError(Reason.ENGINE_ERROR, message)


def _from_status(error: grpc.aio.AioRpcError) -> WorkerError:
    details = error.details() or error.code().name
    if error.code() in (grpc.StatusCode.UNAVAILABLE, grpc.StatusCode.CANCELLED):
        known = _from_message(details)
        return known if known.reason == Reason.QUEUE_FULL else WorkerError(Reason.UNAVAILABLE, details)
    return _from_message(details)
