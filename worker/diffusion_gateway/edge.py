"""HTTP around an endpoint: bodies within limits, errors in OpenAI's form, request ids, and clients that leave."""

import asyncio
from collections.abc import AsyncIterator, Callable, Coroutine
from typing import Any, TypeVar

import structlog
from starlette.datastructures import Headers, MutableHeaders
from starlette.exceptions import HTTPException
from starlette.requests import ClientDisconnect, Request
from starlette.responses import JSONResponse, Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from .gateway import Gateway
from .openai.errors import ApiError
from .trace import CLIENT_GONE, Trace, request_id_from
from .trace_context import TRACEPARENT

T = TypeVar("T")

REQUEST_ID = "x-request-id"
_BODY_SECONDS = 30.0
_log = structlog.get_logger()


class Traced:
    """Gives every request a `Trace` and every response the request id; logs and counts at the end."""

    def __init__(self, app: ASGIApp, gateway: Gateway) -> None:
        self._app = app
        self._gateway = gateway

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """ASGI."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        given = Headers(scope=scope)
        trace = Trace(
            request_id_from(given.get(REQUEST_ID)),
            method=scope["method"],
            path=scope["path"],
            context=self._gateway.tracing.begin(given.get(TRACEPARENT)),
        )
        scope["trace"] = trace

        async def send_traced(message: Message) -> None:
            if message["type"] == "http.response.start":
                trace.status = message["status"]
                headers = MutableHeaders(scope=message)
                headers[REQUEST_ID] = trace.request_id
                if self._gateway.draining:
                    headers["connection"] = "close"
            await send(message)

        try:
            await self._app(scope, receive, send_traced)
        except Exception as error:
            trace.broken = repr(error)
            if trace.status:
                raise
            _log.exception("request failed", request_id=trace.request_id)
            await _crash(trace)(scope, receive, send_traced)
        finally:
            self._gateway.finish(trace)


def trace_of(request: Request) -> Trace:
    """The request's trace."""
    trace: Trace = request.scope["trace"]
    return trace


async def read_body(request: Request, *, limit: int, hold: Callable[[int], None]) -> bytes:
    """The body. `hold` is told of each piece's size, and may refuse it. Raises `ApiError` (413, 408, or what `hold` raises)."""
    too_large = ApiError(
        413, f"The body is larger than {limit} bytes, which is the limit here.", code="request_too_large"
    )
    declared = request.headers.get("content-length", "")
    if declared.isdigit() and int(declared) > limit:
        raise too_large
    body = bytearray()
    try:
        async with asyncio.timeout(_BODY_SECONDS):
            async for chunk in request.stream():
                if len(body) + len(chunk) > limit:
                    raise too_large
                hold(len(chunk))
                body += chunk
    except TimeoutError:
        raise ApiError(408, f"The body did not arrive within {_BODY_SECONDS:g} s.", code="request_timeout") from None
    return bytes(body)


class ClientGoneError(Exception):
    """The client closed the connection before it had its answer."""


async def unless_client_leaves(receive: Receive, work: Coroutine[Any, Any, T]) -> T:
    """Do `work`; cancel it and raise `ClientGoneError` when the client disconnects first. The body must have been read."""
    has_left = False
    here = asyncio.current_task()
    assert here is not None  # noqa: S101 - for the type checker; a coroutine runs in a task

    def leave(_: "asyncio.Task[None]") -> None:
        nonlocal has_left
        if not watching.cancelled():
            has_left = True
            here.cancel()

    # Only who watches is a task of its own: this runs twice a request.
    watching = asyncio.ensure_future(_disconnect(receive))
    watching.add_done_callback(leave)
    try:
        return await work
    except asyncio.CancelledError:
        if has_left and here.uncancel() == 0:
            raise ClientGoneError from None
        raise
    finally:
        watching.remove_done_callback(leave)
        watching.cancel()


async def _disconnect(receive: Receive) -> None:
    while (await receive())["type"] != "http.disconnect":
        pass


class EventStreamResponse(Response):
    """Server-sent events. Calls `close` whatever happens: at the end, when the client leaves, at the deadline."""

    media_type = "text/event-stream"

    def __init__(
        self,
        events: AsyncIterator[bytes],
        *,
        close: Callable[[], None],
        trace: Trace,
        timeout_seconds: float,
        headers: dict[str, str],
    ) -> None:
        """`close` frees what `events` reads from."""
        super().__init__(headers={"cache-control": "no-cache", "x-accel-buffering": "no", **headers})
        del self.headers["content-length"]
        self._events = events
        self._close = close
        self._trace = trace
        self._timeout_seconds = timeout_seconds

    async def __call__(self, _: Scope, receive: Receive, send: Send) -> None:
        """ASGI."""
        try:
            async with asyncio.timeout(self._timeout_seconds):
                await unless_client_leaves(receive, self._send(send))
        except ClientGoneError:
            self._trace.client_gone = True
        except TimeoutError:
            # Whoever reads so slowly cannot be told either; the connection is closed.
            self._trace.broken = "the client read too slowly"
        finally:
            self._close()

    async def _send(self, send: Send) -> None:
        await send({"type": "http.response.start", "status": self.status_code, "headers": self.raw_headers})
        async for event in self._events:
            await send({"type": "http.response.body", "body": event, "more_body": True})
        await send({"type": "http.response.body", "body": b"", "more_body": False})


def render_api_error(_: Request, error: Exception) -> Response:
    """`ApiError` as a response."""
    assert isinstance(error, ApiError)  # noqa: S101 - for the type checker; Starlette calls this for nothing else
    return JSONResponse(error.body(), status_code=error.status, headers=error.headers())


def render_http_error(request: Request, error: Exception) -> Response:
    """Starlette's own 404 and 405 in OpenAI's form."""
    assert isinstance(error, HTTPException)  # noqa: S101 - as above
    url = f"{request.method} {request.url.path}"
    match error.status_code:
        case 404:
            problem = ApiError(404, f"Unknown request URL: {url}.", code="unknown_url")
        case 405:
            allowed = (error.headers or {}).get("Allow", "another method")
            problem = ApiError(405, f"{url} is not allowed; use {allowed}.", code="method_not_allowed")
        case _:
            problem = ApiError(error.status_code, error.detail, code="invalid_request")
    return JSONResponse(problem.body(), status_code=problem.status, headers=error.headers)


def render_client_gone(request: Request, _: Exception) -> Response:
    """Nobody will read it."""
    trace_of(request).client_gone = True
    return Response(status_code=CLIENT_GONE)


def _crash(trace: Trace) -> Response:
    message = f"The gateway failed to handle this request; its log has more under the request id {trace.request_id}."
    return JSONResponse(ApiError(500, message, code="internal_error").body(), status_code=500)


EXCEPTION_HANDLERS: dict[Any, Any] = {
    ApiError: render_api_error,
    HTTPException: render_http_error,
    ClientGoneError: render_client_gone,
    ClientDisconnect: render_client_gone,
}
