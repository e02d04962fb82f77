"""Several prompts in one request for completions."""

import asyncio
from collections.abc import AsyncIterator
from typing import Any

from diffusion_worker.wire import BlockEvent, FinishEvent, GenerateRequest

from tests.gateway.fake_triton import Event, hangs, says
from tests.gateway.stack import Stack, eventually, started


async def echo(request: GenerateRequest, _: Any) -> AsyncIterator[Event]:
    """Answers with its prompt and seed; a prompt has as many tokens as characters."""
    prompt = request.prompt or ""
    yield BlockEvent(index=0, text=f"{prompt}/{request.seed}", tokens=2, steps=4)
    yield FinishEvent(
        reason="stop",
        prompt_tokens=len(prompt),
        completion_tokens=2,
        steps=4,
        blocks=1,
        seed=request.seed or 0,
        queue_seconds=0.0,
    )


async def test_choices_are_numbered_prompt_by_prompt(stack: Stack) -> None:
    arm = await stack.arm("stable", echo, percent=100)
    await stack.route(arm)
    answer = await stack.openai.completions.create(model="story", prompt=["a", "bc"], n=2, seed=7)
    assert [choice.index for choice in answer.choices] == [0, 1, 2, 3]
    assert [choice.text.split("/")[0] for choice in answer.choices] == ["a", "a", "bc", "bc"]
    assert answer.choices[0].text == "a/7"
    assert answer.choices[2].text == "bc/7"


async def test_the_tokens_of_a_prompt_count_once_however_many_choices_it_has(stack: Stack) -> None:
    arm = await stack.arm("stable", echo, percent=100)
    await stack.route(arm)
    answer = await stack.openai.completions.create(model="story", prompt=["a", "bc"], n=2)
    assert (answer.usage.prompt_tokens, answer.usage.completion_tokens, answer.usage.total_tokens) == (3, 8, 11)


async def test_a_batch_is_streamed_side_by_side(stack: Stack) -> None:
    arm = await stack.arm("stable", echo, percent=100)
    await stack.route(arm)
    stream = await stack.openai.completions.create(
        model="story", prompt=["a", "bc"], seed=7, stream=True, stream_options={"include_usage": True}
    )
    texts: dict[int, str] = {}
    usage = None
    async for chunk in stream:
        usage = chunk.usage or usage
        for choice in chunk.choices:
            texts[choice.index] = texts.get(choice.index, "") + choice.text
    assert texts == {0: "a/7", 1: "bc/7"}
    assert usage is not None
    assert usage.prompt_tokens == 3


async def test_a_batch_spreads_over_the_pods_of_an_arm(stack: Stack) -> None:
    arm = await stack.arm("stable", says("x"), says("x"), percent=100)
    await stack.route(arm)
    await stack.openai.completions.create(model="story", prompt=["a", "b", "c", "d"])
    assert [len(pod.requests) for pod in arm.pods] == [2, 2]


async def test_large_batches_are_an_overload_before_they_fill_the_gateway() -> None:
    body = {"model": "story", "prompt": ["x"] * 8}
    async with started(max_in_flight=4) as stack:  # 16 choices
        arm = await stack.arm("stable", hangs(), percent=100)
        await stack.route(arm)
        held = [asyncio.create_task(stack.http.post("/v1/completions", json=body)) for _ in range(2)]
        await eventually(lambda: len(arm.pods[0].requests) == 16)
        refused = await stack.http.post("/v1/completions", json=body | {"prompt": "x"})
        assert refused.status_code == 429
        assert "16 choices" in refused.json()["error"]["message"]
        for task in held:
            task.cancel()
        await eventually(lambda: stack.metric("requests_in_flight") == 0)
        arm.pods[0].script = says("x")
        assert (await stack.http.post("/v1/completions", json=body)).status_code == 200
