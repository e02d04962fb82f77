"""A worker that computes nothing, over Triton's gRPC and over OpenAI's HTTP, and the API server that tells our gateway of it.

Prints its ports as one line of JSON and ends when its standard input is closed.
"""

import asyncio
import json
import sys
from collections.abc import AsyncIterator
from typing import Any

from aiohttp import web
from diffusion_worker.wire import BlockEvent, FinishEvent, GenerateRequest, ScoreEvent, ScoreRequest

from benchmarks.gateway import pace
from tests.gateway.fake_api import FakeApi
from tests.gateway.fake_triton import FakeTriton, Script
from tests.gateway.stack import MODELS, SLICES, Arm, model_resource, slice_resource


async def _events(
    request: GenerateRequest | ScoreRequest, _: Any
) -> AsyncIterator[BlockEvent | FinishEvent | ScoreEvent]:
    if isinstance(request, ScoreRequest):
        text = request.completion or ""
        yield ScoreEvent(nll=float(len(text)), tokens=max(1, len(text) // 4), text_bytes=len(text), prompt_tokens=16)
        return
    index = 0
    async for text in pace.blocks():
        yield BlockEvent(index=index, text=text, tokens=pace.TOKENS, steps=8)
        index += 1
    tokens = pace.BLOCKS * pace.TOKENS
    yield FinishEvent(
        reason="length",
        prompt_tokens=16,
        completion_tokens=tokens,
        steps=8 * pace.BLOCKS,
        blocks=pace.BLOCKS,
        seed=request.seed or 0,
        queue_seconds=0.0,
    )


def _with_rows(count: int) -> Script:
    """The same of a pod that answers so many requests at a time; the others wait, as they do in Triton's queue."""
    rows = asyncio.Semaphore(count)

    async def answer(
        request: GenerateRequest | ScoreRequest, context: Any
    ) -> AsyncIterator[BlockEvent | FinishEvent | ScoreEvent]:
        async with rows:
            async for event in _events(request, context):
                yield event

    return answer


async def _chat(request: web.Request) -> web.StreamResponse:
    await request.json()
    response = web.StreamResponse(headers={"content-type": "text/event-stream"})
    await response.prepare(request)
    head = {"id": "chatcmpl-1", "object": "chat.completion.chunk", "created": 1, "model": pace.MODEL}

    async def send(choice: dict[str, Any]) -> None:
        chunk = {**head, "choices": [{"index": 0, "finish_reason": None, **choice}]}
        await response.write(f"data: {json.dumps(chunk)}\n\n".encode())

    async for text in pace.blocks():
        await send({"delta": {"role": "assistant", "content": text}})
    await send({"delta": {}, "finish_reason": "length"})
    await response.write(b"data: [DONE]\n\n")
    return response


async def _http() -> int:
    app = web.Application()
    app.router.add_post("/v1/chat/completions", _chat)
    runner = web.AppRunner(app, access_log=None)
    await runner.setup()
    await web.TCPSite(runner, "127.0.0.1", 0).start()
    port: int = runner.addresses[0][1]
    return port


async def _main() -> None:
    pod, bound_pod, api = FakeTriton(_events), FakeTriton(_with_rows(pace.BOUND_ROWS)), FakeApi()
    await pod.start("127.0.0.1")
    await bound_pod.start("127.0.0.1")
    await api.start()
    arm = Arm("stable", "diffusion", "stub0001", percent=100, port=pod.port, pods=[pod])
    ar = Arm("fallback", "ar", "stub0002", percent=0, port=pod.port, pods=[pod])
    bound = Arm("stable", "diffusion", "stub0003", percent=100, port=bound_pod.port, pods=[bound_pod])
    await api.put(MODELS, model_resource(arm, name=pace.MODEL))
    scoring = {"samplePercent": pace.SCORED_PERCENT}
    await api.put(MODELS, model_resource(arm, ar, name=pace.SCORED_MODEL, scoring=scoring))
    await api.put(MODELS, model_resource(bound, ar, name=pace.BOUND_MODEL, scoring={"samplePercent": 0}))
    await api.put(MODELS, model_resource(bound, ar, name=pace.BOUND_SCORED_MODEL, scoring=scoring))
    for each in (arm, ar, bound):
        await api.put(SLICES, slice_resource(each.service, "127.0.0.1"))
    sys.stdout.write(json.dumps({"http": await _http(), "api": api.port}) + "\n")
    sys.stdout.flush()
    await asyncio.to_thread(sys.stdin.read)


if __name__ == "__main__":
    asyncio.run(_main())
