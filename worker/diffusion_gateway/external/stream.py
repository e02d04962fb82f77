"""One request on an AR server, as a stream of events."""

import asyncio
import contextlib
import time
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Mapping

import aiohttp
from diffusion_worker.wire import ErrorEvent, GenerateRequest, ScoreRequest
from pydantic import ValidationError

from ..event_stream import Event, EventStream
from ..openai.errors import ApiError
from ..reasons import Reason, WorkerError
from .bodies import call_of
from .chunks import Answer, Chunk
from .failures import broken, failed, failed_in_stream
from .http import Http
from .scoring import prompt_tokens, score
from .sse import ServerSentEvents, TooLongError

_DONE = b"[DONE]"
_LONGEST_ERROR_BYTES = 64 * 2**10
_ERROR_SECONDS = 5.0
_TAIL_SECONDS = 1.0


class ExternalStream(EventStream):
    """An answer or a score. Closing it closes the connection, by which the server knows."""

    def __init__(
        self,
        http: Http,
        request: GenerateRequest | ScoreRequest,
        *,
        traceparent: str | None = None,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        """`traceparent`: W3C trace context, for the server."""
        self._http = http
        self._request = request
        self._headers = {"x-request-id": request.request_id}
        if traceparent is not None:
            self._headers["traceparent"] = traceparent
        super().__init__(clock=clock)

    async def _read(self) -> None:
        try:
            if isinstance(self._request, ScoreRequest):
                await self._put(await score(self._http, self._request, headers=self._headers))
                return
            # Closed by name: an answer that nobody wants any more must not keep its connection until it is collected.
            async with contextlib.aclosing(_answer(self._http, self._request, headers=self._headers)) as events:
                async for event in events:
                    await self._put(event)
        except WorkerError as error:
            await self._put(error)
        except ApiError as error:
            await self._put(ErrorEvent(code="invalid_request", message=error.message, param=error.param))
        except (aiohttp.ClientError, OSError) as error:
            await self._put(broken(error))


async def _answer(
    http: Http, request: GenerateRequest, *, headers: Mapping[str, str]
) -> AsyncGenerator[Event | WorkerError]:
    call = call_of(await _with_limit(http, request, headers=headers), model=http.model)
    async with http.post(call.path, call.body, headers=headers) as response:
        if response.status != 200:
            http.note_status(response.status)
            yield failed(response.status, await _start_of(response))
            return
        if response.content_type != "text/event-stream":
            yield WorkerError(Reason.ENGINE_ERROR, f"the server does not stream: {response.content_type}")
            return
        answer = Answer(request)
        try:
            async for data in _events(response):
                chunk = Chunk.model_validate_json(data)
                if chunk.error is not None:
                    yield failed_in_stream(chunk.error)
                    return
                block = answer.read(chunk)
                if block is not None:
                    yield block
        except TooLongError as error:
            yield WorkerError(Reason.ENGINE_ERROR, str(error))
            return
        except (ValidationError, KeyError, TypeError, ValueError) as error:
            # Not its text, which quotes the answer.
            yield WorkerError(Reason.ENGINE_ERROR, f"the server sent what is no chunk: {type(error).__name__}")
            return
        end = answer.end()
        if end is None:
            yield WorkerError(Reason.UNAVAILABLE, "the stream ended before the answer did")
            return
        http.prompt_lengths.learn(request, end.prompt_tokens)
        yield end
        await _read_tail(response)


async def _with_limit(http: Http, request: GenerateRequest, *, headers: Mapping[str, str]) -> GenerateRequest:
    """Up to the server's limit, where the client leaves open how long a completion may be: servers would end it after 16 tokens."""
    longest = http.prompt_lengths.longest
    prompt = request.prompt if request.prompt is not None else request.prompt_token_ids
    if prompt is None or request.max_tokens is not None or longest is None:
        return request
    before = http.prompt_lengths.of(request)
    if before is None:
        before = await prompt_tokens(http, prompt, headers=headers)
    return request.model_copy(update={"max_tokens": max(1, longest - before)})


async def _events(response: aiohttp.ClientResponse) -> AsyncIterator[bytes]:
    """Data of each event, up to `[DONE]` or the end of the stream."""
    events = ServerSentEvents()
    async for piece in response.content.iter_any():
        for data in events.feed(piece):
            if data == _DONE:
                return
            yield data
    last = events.close()
    if last and last != _DONE:
        yield last


async def _read_tail(response: aiohttp.ClientResponse) -> None:
    """What comes after the end is a few bytes; a connection that was read out can be used again."""
    with contextlib.suppress(TimeoutError, aiohttp.ClientError):
        async with asyncio.timeout(_TAIL_SECONDS):
            async for _ in response.content.iter_any():
                pass


async def _start_of(response: aiohttp.ClientResponse) -> bytes:
    try:
        async with asyncio.timeout(_ERROR_SECONDS):
            return await response.content.read(_LONGEST_ERROR_BYTES)
    except TimeoutError:
        return b""
