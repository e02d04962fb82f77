"""Clients that say nothing, or too slowly, or do not read: they cost little and hold nobody else up."""

import asyncio
import contextlib
import json
import resource
from collections.abc import AsyncIterator
from typing import Any

import pytest
import structlog
from diffusion_gateway import connections, server
from diffusion_gateway.connections import Connections, allowed_connections
from diffusion_gateway.metrics.connections import Closed
from starlette.requests import Request
from starlette.responses import PlainTextResponse, Response

from tests.gateway.fake_triton import Event, block
from tests.gateway.stack import Stack, eventually

REQUEST = b"GET / HTTP/1.1\r\nhost: x\r\n\r\n"


@pytest.fixture(autouse=True)
def fast(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(connections, "_SWEEP_SECONDS", 0.02)


@contextlib.asynccontextmanager
async def port(**limits: Any) -> AsyncIterator[tuple[Connections, int]]:
    """A server with these limits, which answers everything, and what waits in /wait when the client goes."""

    async def app(scope: Any, receive: Any, send: Any) -> None:
        request = Request(scope, receive)
        response: Response = PlainTextResponse("hello")
        if request.url.path == "/wait":
            await asyncio.sleep(0.5)
        if request.url.path == "/large":
            response = PlainTextResponse("x" * 50_000_000)
        await response(scope, receive, send)

    watched = Connections(**({"limit": 100} | limits))
    sock = server.listen("127.0.0.1", 0)
    serving = server._server(app, watched)
    tasks = [asyncio.create_task(serving.serve(sockets=[sock])), asyncio.create_task(watched.sweep())]
    try:
        await eventually(lambda: serving.started)
        yield watched, sock.getsockname()[1]
    finally:
        serving.should_exit = serving.force_exit = True
        tasks[1].cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        sock.close()


@contextlib.asynccontextmanager
async def connection(number: int) -> AsyncIterator[tuple[asyncio.StreamReader, asyncio.StreamWriter]]:
    reader, writer = await asyncio.open_connection("127.0.0.1", number)
    try:
        yield reader, writer
    finally:
        writer.transport.abort()


async def is_closed(reader: asyncio.StreamReader) -> bool:
    """Whether the server hangs up within ten seconds."""
    with contextlib.suppress(ConnectionError):
        return await asyncio.wait_for(reader.read(), 10) is not None
    return True


async def test_who_connects_and_says_nothing_is_hung_up_on() -> None:
    closed: list[Closed] = []
    async with (
        port(request_seconds=0.1, count_closed=closed.append) as (watched, number),
        connection(number) as (reader, _),
    ):
        assert await is_closed(reader)
        await eventually(lambda: len(watched) == 0)
    assert closed == [Closed.SLOW_REQUEST]


async def test_an_idle_connection_is_closed_in_the_end() -> None:
    closed: list[Closed] = []
    async with (
        port(keep_alive_seconds=0.1, count_closed=closed.append) as (_, number),
        connection(number) as (reader, writer),
    ):
        writer.write(REQUEST)
        await reader.readuntil(b"hello")
        assert await is_closed(reader)
    assert closed == [Closed.IDLE]


async def test_headers_that_come_byte_by_byte_have_one_deadline_together() -> None:
    async with port(request_seconds=0.2) as (_, number), connection(number) as (reader, writer):
        writer.write(b"GET / HTTP/1.1\r\nx: ")
        bytes_sent = 0
        with contextlib.suppress(ConnectionError):
            while bytes_sent < 500 and not reader.at_eof():
                writer.write(b"a")
                await writer.drain()
                bytes_sent += 1
                await asyncio.sleep(0.02)
        assert bytes_sent < 500
        assert await is_closed(reader)


async def test_the_headers_of_a_later_request_have_a_deadline_too() -> None:
    async with port(request_seconds=0.2) as (_, number), connection(number) as (reader, writer):
        writer.write(REQUEST)
        assert b"200 OK" in await reader.readuntil(b"hello")
        writer.write(REQUEST[:10])
        assert await is_closed(reader)


async def test_an_idle_connection_is_kept_longer_than_a_request_may_take() -> None:
    async with (
        port(request_seconds=0.5, keep_alive_seconds=60) as (watched, number),
        connection(number) as (reader, writer),
    ):
        writer.write(REQUEST)
        await reader.readuntil(b"hello")
        await asyncio.sleep(1.0)
        writer.write(REQUEST)
        assert b"200 OK" in await reader.readuntil(b"hello")
        assert len(watched) == 1


async def test_an_answer_in_work_may_take_longer_than_its_headers() -> None:
    async with port(request_seconds=0.1) as (_, number), connection(number) as (reader, writer):
        writer.write(REQUEST.replace(b"/", b"/wait", 1))
        assert b"200 OK" in await reader.readuntil(b"hello")


@pytest.mark.parametrize(
    "said", [b"nonsense\r\n\r\n", b"GET / HTTP/1.1\r\nx: " + b"a" * 200_000], ids=["no HTTP", "endless headers"]
)
async def test_what_is_no_http_is_told_so_in_openais_form_and_hung_up_on(said: bytes) -> None:
    async with port() as (_, number), connection(number) as (reader, writer):
        writer.write(said)
        head, _, body = (await asyncio.wait_for(reader.readuntil(b"}}"), 10)).partition(b"\r\n\r\n")
        assert head.startswith(b"HTTP/1.1 400 Bad Request")
        assert json.loads(body)["error"]["code"] == "invalid_http"
        assert await is_closed(reader)


async def test_newcomers_take_the_place_of_whoever_was_idle_longest() -> None:
    async with port(limit=3) as (watched, number), contextlib.AsyncExitStack() as stack:
        idle = [await stack.enter_async_context(connection(number)) for _ in range(3)]
        await eventually(lambda: len(watched) == 3)
        reader, writer = await stack.enter_async_context(connection(number))
        assert await is_closed(idle[0][0])
        writer.write(REQUEST)
        assert b"200 OK" in await reader.readuntil(b"hello")
        assert not any(other.at_eof() for other, _ in idle[1:])


async def test_a_rush_of_newcomers_does_not_exceed_the_limit() -> None:
    closed: list[Closed] = []
    async with port(limit=10, count_closed=closed.append) as (watched, number), contextlib.AsyncExitStack() as stack:
        everybody = [await stack.enter_async_context(connection(number)) for _ in range(200)]
        await asyncio.gather(*(is_closed(reader) for reader, _ in everybody[:190]))
        assert len(watched) == 10
    assert closed == [Closed.CROWDED_OUT] * 190


async def test_requests_in_work_are_never_closed_for_newcomers() -> None:
    async with port(limit=2) as (_, number), contextlib.AsyncExitStack() as stack:
        busy = [await stack.enter_async_context(connection(number)) for _ in range(2)]
        for _, writer in busy:
            writer.write(REQUEST.replace(b"/", b"/wait", 1))
        await asyncio.sleep(0.1)
        refused, _ = await stack.enter_async_context(connection(number))
        assert await is_closed(refused)
        for reader, _ in busy:
            assert b"200 OK" in await reader.readuntil(b"hello")


async def test_what_a_client_does_not_fetch_is_thrown_away() -> None:
    closed: list[Closed] = []
    async with (
        port(farewell_seconds=0.1, count_closed=closed.append) as (watched, number),
        connection(number) as (_, writer),
    ):
        writer.write(b"GET /large HTTP/1.0\r\n\r\n")  # 1.0: the connection ends with the answer
        await eventually(lambda: len(watched) == 1)
        await eventually(lambda: len(watched) == 0)
    assert closed == [Closed.UNREAD]


def test_the_limit_follows_what_the_process_may_open(monkeypatch: pytest.MonkeyPatch) -> None:
    limits = {"now": (1024, 4096)}
    monkeypatch.setattr(resource, "getrlimit", lambda _: limits["now"])
    monkeypatch.setattr(resource, "setrlimit", lambda _, new: limits.update(now=new))
    assert allowed_connections(2000) == 2000
    assert limits["now"] == (2512, 4096)
    with structlog.testing.capture_logs() as logs:
        assert allowed_connections(10_000) == 3584
    assert limits["now"] == (4096, 4096)
    assert [(line["wanted"], line["allowed"]) for line in logs] == [(10_000, 3584)]


async def test_a_client_that_does_not_read_holds_the_worker_back_and_little_memory(stack: Stack) -> None:
    sent = 0

    async def endless(*_: Any) -> AsyncIterator[Event]:
        nonlocal sent
        while sent < 20_000:  # 200 MB
            yield block(sent, "x" * 10_000)
            sent += 1

    await stack.route(await stack.arm("stable", endless, percent=100))
    async with connection(int(stack.url.rsplit(":", 1)[1])) as (_, writer):
        body = b'{"model": "story", "prompt": "x", "stream": true}'
        writer.write(b"POST /v1/completions HTTP/1.1\r\nhost: x\r\ncontent-length: %d\r\n\r\n" % len(body) + body)
        await eventually(lambda: sent > 0)
        before = -1
        while before < sent:  # until it stands still
            before = sent
            await asyncio.sleep(0.5)
        assert sent < 2_000
        # Others are answered all the while.
        assert (await stack.http.get("/v1/models")).status_code == 200


async def test_open_connections_are_shown(stack: Stack) -> None:
    async with connection(int(stack.url.rsplit(":", 1)[1])):
        await eventually(lambda: stack.metric("connections") >= 1)
