"""Errors, as the clients that people use see them. docs/api.md has the table."""

from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
from diffusion_worker.wire import ErrorEvent, GenerateRequest

from tests.gateway.clients import CLIENTS, Client, Json, Outcome
from tests.gateway.fake_triton import Event, reports, says, triton_says
from tests.gateway.stack import Stack, started

CHAT = {"model": "story", "messages": [{"role": "user", "content": "hi"}]}
PROMPT = {"model": "story", "prompt": "Once"}
FULL = "Exceeds maximum queue size"


@pytest.fixture(params=CLIENTS)
def client(request: pytest.FixtureRequest) -> Client:
    return CLIENTS[request.param]


def told(outcome: Outcome, client: Client, kind: str) -> tuple[int | None, str | None, str | None]:
    """Status, code and parameter. The official clients have a class of their own for each status."""
    assert outcome.error is not None
    if client is not CLIENTS["curl"]:
        assert outcome.error.kind == kind
    return outcome.error.status, outcome.error.code, outcome.error.param


async def test_a_value_out_of_bounds(stack: Stack, client: Client) -> None:
    await stack.route(await stack.arm("stable", says("x"), percent=100))
    outcome = await client.call(stack.url, "chat", CHAT | {"temperature": 3})
    assert told(outcome, client, "BadRequestError") == (400, "invalid_value", "temperature")


UNSUPPORTED: dict[str, tuple[str, Json]] = {
    "tools": ("chat", {"tools": [{"type": "function", "function": {"name": "f", "parameters": {}}}]}),
    "response_format": ("chat", {"response_format": {"type": "json_object"}}),
    "echo": ("completion", {"echo": True}),
    "suffix": ("completion", {"suffix": "the end"}),
    "best_of": ("completion", {"best_of": 2}),
}


@pytest.mark.parametrize("param", UNSUPPORTED)
async def test_what_is_not_supported_is_refused_by_name(stack: Stack, client: Client, param: str) -> None:
    await stack.route(await stack.arm("stable", says("x"), percent=100))
    kind, body = UNSUPPORTED[param]
    outcome = await client.call(stack.url, kind, (CHAT if kind == "chat" else PROMPT) | body)
    assert told(outcome, client, "BadRequestError") == (400, "unsupported_parameter", param)


async def test_a_prompt_that_is_too_long(stack: Stack, client: Client) -> None:
    error = ErrorEvent(code="context_length_exceeded", message="9 + 5 tokens; the limit is 8", param="prompt_token_ids")
    await stack.route(await stack.arm("stable", reports(error), percent=100))
    outcome = await client.call(stack.url, "completion", PROMPT)
    assert told(outcome, client, "BadRequestError") == (400, "context_length_exceeded", "prompt")


async def test_a_body_that_is_too_large(client: Client) -> None:
    async with started(max_body_bytes=1000) as stack:
        outcome = await client.call(stack.url, "completion", PROMPT | {"prompt": "x" * 2000})
        assert told(outcome, client, "APIStatusError" if client is CLIENTS["python"] else "APIError")[:2] == (
            413,
            "request_too_large",
        )


async def test_an_unknown_model(stack: Stack, client: Client) -> None:
    outcome = await client.call(stack.url, "chat", CHAT | {"model": "nobody"})
    assert told(outcome, client, "NotFoundError") == (404, "model_not_found", "model")


async def test_a_wrong_key(client: Client, tmp_path: Path) -> None:
    (tmp_path / "team").write_text("sk-good")
    async with started(api_keys_dir=str(tmp_path)) as stack:
        await stack.route(await stack.arm("stable", says("x"), percent=100))
        outcome = await client.call(stack.url, "chat", CHAT, key="sk-bad")
        assert told(outcome, client, "AuthenticationError") == (401, "invalid_api_key", None)
        assert (await client.call(stack.url, "chat", CHAT, key="sk-good")).texts == ["x"]


async def test_a_full_queue(stack: Stack, client: Client) -> None:
    await stack.route(await stack.arm("stable", triton_says(FULL), percent=100))
    outcome = await client.call(stack.url, "chat", CHAT)
    assert told(outcome, client, "RateLimitError")[:2] == (429, "overloaded")


async def test_nobody_to_answer(stack: Stack, client: Client) -> None:
    await stack.route(await stack.arm("stable", percent=100))
    outcome = await client.call(stack.url, "chat", CHAT)
    assert told(outcome, client, "InternalServerError")[:2] == (503, "model_unavailable")


@pytest.mark.parametrize("name", ["python", "node"])
async def test_the_official_clients_try_again_when_we_are_overloaded(stack: Stack, name: str) -> None:
    asked: list[Any] = []

    async def full_once(request: GenerateRequest, context: Any) -> AsyncIterator[Event | str]:
        asked.append(request)
        script = triton_says(FULL) if len(asked) == 1 else says("at last")
        async for item in script(request, context):
            yield item

    await stack.route(await stack.arm("stable", full_once, percent=100))
    assert (await CLIENTS[name].call(stack.url, "chat", CHAT, retries=1)).texts == ["at last"]
