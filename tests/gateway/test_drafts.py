"""Drafts of the canvas in work: shown to who reads fast enough, never kept for who does not."""

import asyncio
import contextlib
import time
from collections.abc import AsyncIterator
from typing import Any

import pytest
from diffusion_gateway.triton import TritonServer, TritonStream
from diffusion_worker.wire import DraftEvent, ErrorEvent, FinishEvent, GenerateRequest

from tests.gateway.fake_triton import Event, FakeTriton, block, drafts, finish, says, waits_for
from tests.gateway.stack import Stack, eventually

BODY = {"model": "story", "prompt": "Once", "stream": True, "drafts": True}


def draft(step: int, index: int = 0) -> DraftEvent:
    return DraftEvent(index=index, step=step, text=f"draft {step}")


@contextlib.asynccontextmanager
async def stream_of(script: Any) -> AsyncIterator[TritonStream]:
    pod = FakeTriton(script)
    await pod.start("127.0.0.1")
    server = TritonServer(f"127.0.0.1:{pod.port}")
    request = GenerateRequest(request_id="r", prompt="x", seed=1, drafts=True)
    stream = server.open(request, revision=None, traceparent=None, clock=time.monotonic)
    try:
        yield stream
    finally:
        stream.close()
        await asyncio.gather(stream.task, return_exceptions=True)
        await server.close()
        await pod.kill()


async def test_a_reader_that_keeps_up_sees_every_draft() -> None:
    was_read = asyncio.Event()

    async def script(*_: Any) -> AsyncIterator[Event]:
        for step in range(1, 4):
            yield draft(step)
            await was_read.wait()
            was_read.clear()
        yield finish(0, seed=1)

    async with stream_of(script) as stream:
        for step in range(1, 4):
            assert await stream.next(timeout_seconds=60) == draft(step)
            was_read.set()
        assert isinstance(await stream.next(timeout_seconds=60), FinishEvent)


async def test_a_reader_that_stops_finds_one_draft_and_every_block() -> None:
    sent = asyncio.Event()

    async def script(*_: Any) -> AsyncIterator[Event]:
        for step in range(1, 500):
            yield draft(step)
        yield block(0, "text")
        for step in range(1, 500):
            yield draft(step, index=1)
        yield finish(1, seed=1)
        sent.set()

    async with stream_of(script) as stream:
        await asyncio.wait_for(sent.wait(), 60)
        await asyncio.wait_for(asyncio.shield(stream.task), 60)
        found = [await stream.next(timeout_seconds=60) for _ in range(3)]
    assert found == [draft(1), block(0, "text"), found[2]]
    assert isinstance(found[2], FinishEvent)


async def test_drafts_come_before_the_first_block_so_nobody_takes_over_after_one(stack: Stack) -> None:
    async def fails(*_: Any) -> AsyncIterator[Event]:
        yield draft(1)
        yield ErrorEvent(code="engine_error", message="NaN")

    fallback = await stack.arm("fallback", says("from AR"))
    await stack.route(await stack.arm("stable", fails, percent=100), fallback)
    response = await stack.http.post("/v1/completions", json=BODY)
    assert '"draft"' in response.text
    assert "broke off" in response.text
    assert not fallback.pods[0].requests


@pytest.mark.parametrize("drawn", [False, True])
async def test_only_who_asks_is_shown_drafts(stack: Stack, drawn: bool) -> None:
    async def script(request: GenerateRequest, context: Any) -> AsyncIterator[Event | str | bytes]:
        shown = drafts(draft(1), block(0, "x")) if request.drafts else says("x")
        async for event in shown(request, context):
            yield event

    await stack.route(await stack.arm("stable", script, percent=100))
    response = await stack.http.post("/v1/completions", json=BODY | {"drafts": drawn})
    assert ('"draft"' in response.text) == drawn


async def test_drafts_are_no_output(stack: Stack) -> None:
    arm = await stack.arm("stable", drafts(draft(1), block(0, "x")), percent=100)
    await stack.route(arm)
    await stack.http.post("/v1/completions", json=BODY)
    await eventually(lambda: stack.arm_metric("output_tokens_total", arm) == 3)


async def test_an_ar_arm_shows_none_and_answers_all_the_same(stack: Stack) -> None:
    go_on = asyncio.Event()
    go_on.set()
    await stack.route(await stack.arm("stable", waits_for(go_on, before=("a",), after=("b",)), kind="ar", percent=100))
    response = await stack.http.post("/v1/completions", json=BODY)
    assert '"draft"' not in response.text
    assert response.text.rstrip().endswith("data: [DONE]")
