"""Streams, as the clients that people use see them. docs/api.md has the table."""

import grpc
import pytest
from diffusion_worker.wire import DraftEvent

from tests.gateway.clients import CLIENTS, Client
from tests.gateway.fake_triton import block, closes_with, drafts, says
from tests.gateway.stack import Stack

CHAT = {"model": "story", "messages": [{"role": "user", "content": "hi"}]}
PROMPT = {"model": "story", "prompt": "Once", "stream": True}
STREAM = CHAT | {"stream": True}
OFFICIAL = {name: client for name, client in CLIENTS.items() if name != "curl"}


@pytest.fixture(params=CLIENTS)
def client(request: pytest.FixtureRequest) -> Client:
    return CLIENTS[request.param]


async def test_streamed_chat(stack: Stack, client: Client) -> None:
    await stack.route(await stack.arm("stable", says("Hello", " world"), percent=100))
    answer = await client.call(stack.url, "chat", STREAM)
    first, *middle, last = answer.chunks
    assert first["choices"][0]["delta"]["role"] == "assistant"
    assert [chunk["choices"][0]["delta"]["content"] for chunk in middle] == ["Hello", " world"]
    assert last["choices"][0]["finish_reason"] == "stop"
    assert {chunk["object"] for chunk in answer.chunks} == {"chat.completion.chunk"}
    assert len({chunk["id"] for chunk in answer.chunks}) == 1
    assert not any(chunk.get("usage") for chunk in answer.chunks)


async def test_streamed_completion(stack: Stack, client: Client) -> None:
    await stack.route(await stack.arm("stable", says("upon", " a time", reason="length"), percent=100))
    answer = await client.call(stack.url, "completion", PROMPT)
    assert (answer.texts, answer.finish_reasons) == (["upon a time"], ["length"])


async def test_usage_at_the_end_of_a_stream(stack: Stack, client: Client) -> None:
    await stack.route(await stack.arm("stable", says("a", "b"), percent=100))
    answer = await client.call(stack.url, "chat", STREAM | {"stream_options": {"include_usage": True}})
    assert answer.chunks[-1]["choices"] == []
    assert (answer.usage["prompt_tokens"], answer.usage["completion_tokens"]) == (7, 6)


async def test_streamed_choices(stack: Stack, client: Client) -> None:
    await stack.route(await stack.arm("stable", says("a", "b"), percent=100))
    answer = await client.call(stack.url, "chat", STREAM | {"n": 2})
    assert answer.texts == ["ab", "ab"]


async def test_a_stream_that_breaks_off_is_an_error(stack: Stack, client: Client) -> None:
    breaks = closes_with(grpc.StatusCode.UNAVAILABLE, after=("Once",))
    await stack.route(await stack.arm("stable", breaks, percent=100))
    answer = await client.call(stack.url, "chat", STREAM)
    assert answer.texts == ["Once"]
    assert answer.error is not None
    assert "broke off" in answer.error.message


async def test_drafts_are_extra_chunks_without_text(stack: Stack, client: Client) -> None:
    script = drafts(DraftEvent(index=0, step=3, text="Hxllo"), block(0, "Hello"))
    arm = await stack.arm("stable", script, percent=100)
    await stack.route(arm)
    answer = await client.call(stack.url, "chat", STREAM | {"drafts": True})
    assert arm.pods[0].requests[0].drafts
    assert answer.texts == ["Hello"]
    found = [chunk["draft"] for chunk in answer.chunks if chunk.get("draft")]
    assert found == [{"choice": 0, "block": 0, "step": 3, "text": "Hxllo"}]


@pytest.mark.parametrize("name", OFFICIAL)
async def test_the_clients_own_stream_helper_is_not_confused_by_drafts(stack: Stack, name: str) -> None:
    script = drafts(DraftEvent(index=0, step=1, text="Hxllo"), block(0, "Hello"), DraftEvent(index=1, step=1, text="x"))
    await stack.route(await stack.arm("stable", script, percent=100))
    answer = await OFFICIAL[name].call(stack.url, "helper", CHAT | {"drafts": True})
    assert (answer.texts, answer.finish_reasons) == (["Hello"], ["stop"])
