"""Several choices, and log-probabilities, as the official client sees them."""

import asyncio
from collections.abc import AsyncIterator
from typing import Any

from diffusion_gateway.openai.sampling import seed_of_choice
from diffusion_worker.wire import ErrorEvent, GenerateRequest

from tests.gateway.fake_triton import Event, block, finish, hangs, says, says_seed
from tests.gateway.stack import Stack, eventually

CHAT: dict[str, Any] = {"model": "story", "messages": [{"role": "user", "content": "x"}]}
TEXTS = [f"seed {seed_of_choice(7, index)}" for index in range(3)]


async def test_choices_have_an_index_and_a_seed_each_and_usage_is_their_sum(stack: Stack) -> None:
    arm = await stack.arm("stable", says_seed(), says_seed(), percent=100)
    await stack.route(arm)
    answer = await stack.openai.chat.completions.create(**CHAT, n=3, seed=7)
    assert [choice.index for choice in answer.choices] == [0, 1, 2]
    assert [choice.message.content for choice in answer.choices] == TEXTS
    assert answer.usage.model_dump(exclude_none=True) == {
        "prompt_tokens": 7,
        "completion_tokens": 18,
        "total_tokens": 25,
        "seed": 7,
    }
    assert sorted(len(pod.requests) for pod in arm.pods) == [1, 2]
    assert len({request.request_id for pod in arm.pods for request in pod.requests}) == 3
    await eventually(lambda: stack.arm_metric("output_tokens_total", arm) == 18)
    assert stack.arm_metric("requests_total", arm, code="200") == 1
    assert stack.arm_metric("prompt_tokens_total", arm) == 7


async def test_choices_are_streamed_side_by_side(stack: Stack) -> None:
    arm = await stack.arm("stable", says_seed(), percent=100)
    await stack.route(arm)
    stream = await stack.openai.chat.completions.create(
        **CHAT, n=3, seed=7, stream=True, stream_options={"include_usage": True}
    )
    chunks = [chunk async for chunk in stream]
    texts = ["", "", ""]
    finished = []
    for chunk in chunks:
        for choice in chunk.choices:
            assert choice.index not in finished
            texts[choice.index] += choice.delta.content or ""
            finished += [choice.index] if choice.finish_reason else []
    assert texts == TEXTS
    assert sorted(finished) == [0, 1, 2]
    assert (chunks[-1].usage.completion_tokens, chunks[-1].usage.prompt_tokens) == (18, 7)


async def test_a_slow_choice_holds_no_other_back(stack: Stack) -> None:
    go_on = asyncio.Event()

    async def first_is_slow(request: GenerateRequest, _: Any) -> AsyncIterator[Event]:
        yield block(0, "a")
        if request.seed == 7:
            await go_on.wait()
        yield block(1, "b")
        yield finish(2, seed=request.seed or 0)

    arm = await stack.arm("stable", first_is_slow, percent=100)
    await stack.route(arm)
    stream = await stack.openai.completions.create(model="story", prompt="x", n=2, seed=7, stream=True)
    async for chunk in stream:
        if chunk.choices[0].finish_reason:
            assert chunk.choices[0].index == 1
            break
    go_on.set()
    assert [chunk.choices[0].index async for chunk in stream] == [0, 0]


async def test_when_one_choice_fails_all_go_to_the_next_arm(stack: Stack) -> None:
    async def third_fails(request: GenerateRequest, _: Any) -> AsyncIterator[Event]:
        if request.request_id.endswith(".2"):
            yield ErrorEvent(code="engine_error", message="NaN")
            return
        yield block(0, "never seen")
        await asyncio.Event().wait()

    stable, ar = await stack.arm("stable", third_fails, percent=100), await stack.arm("fallback", says_seed())
    await stack.route(stable, ar)
    answer = await stack.openai.chat.completions.create(**CHAT, n=3, seed=7)
    assert [choice.message.content for choice in answer.choices] == TEXTS
    await eventually(lambda: stable.pods[0].cancelled.is_set())
    assert stack.arm_metric("fallbacks_total", stable, reason="engine_error") == 1


async def test_a_client_that_leaves_frees_all_rows(stack: Stack) -> None:
    arm = await stack.arm("stable", hangs("x"), percent=100)
    await stack.route(arm)
    body = CHAT | {"n": 3, "stream": True}
    async with stack.http.stream("POST", "/v1/chat/completions", json=body) as response:
        async for line in response.aiter_lines():
            if '"content":"x"' in line:
                break
    target = f"127.0.0.2:{arm.port}"
    await eventually(lambda: stack.gateway.pool.in_flight(target) == 0)
    assert len(arm.pods[0].requests) == 3


async def test_log_probabilities_in_chats(stack: Stack) -> None:
    ar = await stack.arm("stable", says_seed(logprobs=True), kind="ar", percent=100)
    await stack.route(ar)
    answer = await stack.openai.chat.completions.create(**CHAT, seed=7, logprobs=True, top_logprobs=2)
    first, second = answer.choices[0].logprobs.content
    assert (first.token, first.bytes, first.logprob) == ("seed ", list(b"seed "), -0.5)
    assert [(each.token, each.bytes) for each in second.top_logprobs] == [("\ufffd", [0xC3]), ("é", [0xC3, 0xA9])]
    stream = await stack.openai.chat.completions.create(**CHAT, seed=7, logprobs=True, top_logprobs=2, stream=True)
    streamed = [
        token.token
        async for chunk in stream
        for choice in chunk.choices
        if choice.logprobs
        for token in choice.logprobs.content
    ]
    assert streamed == ["seed ", "7"]
    assert [request.logprobs for request in ar.pods[0].requests] == [2, 2]


async def test_log_probabilities_in_completions(stack: Stack) -> None:
    ar = await stack.arm("stable", says_seed(logprobs=True), kind="ar", percent=100)
    await stack.route(ar)
    answer = await stack.openai.completions.create(model="story", prompt="x", seed=7, logprobs=1)
    found = answer.choices[0].logprobs
    assert (found.tokens, found.token_logprobs, found.text_offset) == (["seed ", "7"], [-0.5, -0.5], [0, 5])
    assert found.top_logprobs == [{"bytes:\\xc3": -0.25, "seed ": -0.5}, {"bytes:\\xc3": -0.25, "7": -0.5}]
    stream = await stack.openai.completions.create(model="story", prompt="x", seed=7, logprobs=1, stream=True)
    offsets = [
        offset
        async for chunk in stream
        if chunk.choices[0].logprobs
        for offset in chunk.choices[0].logprobs.text_offset
    ]
    assert offsets == [0, 5]


async def test_without_logprobs_there_are_none(stack: Stack) -> None:
    arm = await stack.arm("stable", says("x"), percent=100)
    await stack.route(arm)
    answer = await stack.openai.chat.completions.create(**CHAT)
    assert answer.choices[0].logprobs is None


async def test_without_a_seed_the_drawn_one_comes_back_and_repeats_the_answer(stack: Stack) -> None:
    arm = await stack.arm("stable", says_seed(), percent=100)
    await stack.route(arm)
    whole = await stack.openai.chat.completions.create(**CHAT)
    seed = whole.usage.seed
    assert whole.system_fingerprint == f"fp_stab0001_{seed}"
    assert whole.choices[0].message.content == f"seed {seed}"
    again = await stack.openai.chat.completions.create(**CHAT, seed=seed)
    assert again.choices[0].message.content == whole.choices[0].message.content
    stream = await stack.openai.completions.create(
        model="story", prompt="x", stream=True, stream_options={"include_usage": True}
    )
    chunks = [chunk async for chunk in stream]
    text = "".join(chunk.choices[0].text for chunk in chunks if chunk.choices)
    assert text == f"seed {chunks[-1].usage.seed}"
    assert {chunk.system_fingerprint for chunk in chunks} == {f"fp_stab0001_{chunks[-1].usage.seed}"}


async def test_the_most_likely_tokens_are_the_same_each_time(stack: Stack) -> None:
    arm = await stack.arm("stable", says_seed(), percent=100)
    await stack.route(arm)
    answers = [await stack.openai.chat.completions.create(**CHAT, temperature=0) for _ in range(2)]
    assert {answer.choices[0].message.content for answer in answers} == {"seed 0"}


async def test_sampler_settings_go_to_the_diffusion_arm(stack: Stack) -> None:
    arm = await stack.arm("stable", says("x"), percent=100)
    await stack.route(arm)
    sampler = {"name": "discrete_ddim", "max_denoising_steps": 12, "guidance_scale": 0.8}
    await stack.openai.chat.completions.create(**CHAT, extra_body={"sampler": sampler})
    assert arm.pods[0].requests[0].sampler.model_dump(mode="json", exclude_none=True) == sampler


async def test_a_setting_that_the_arm_refuses_is_named_to_the_client(stack: Stack) -> None:
    async def refuses(*_: Any) -> AsyncIterator[Event]:
        yield ErrorEvent(code="invalid_request", message="discrete_ddim knows no x", param="sampler.entropy_bound")

    arm = await stack.arm("stable", refuses, percent=100)
    await stack.route(arm)
    response = await stack.http.post("/v1/chat/completions", json=CHAT | {"sampler": {"entropy_bound": 1}})
    assert (response.status_code, response.json()["error"]["param"]) == (400, "sampler.entropy_bound")
