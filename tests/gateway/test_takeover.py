"""AR takes over from answers that are not good enough, from pods that rest, and from pods of another revision."""

import asyncio
from collections.abc import AsyncIterator
from typing import Any

import grpc
import pytest
from diffusion_worker.wire import BlockEvent, Degeneration, ErrorEvent, GenerateRequest

from tests.gateway.fake_triton import Event, Script, block, closes_with, finish, reports, says
from tests.gateway.stack import Stack, eventually, started

CHAT = {"model": "story", "messages": [{"role": "user", "content": "Once"}]}
STREAMED = [True, False]


def converges(*each: bool) -> Script:
    """A block for each, which hit the cap of steps or not."""

    async def script(request: GenerateRequest, _: Any) -> AsyncIterator[Event]:
        for index, converged in enumerate(each):
            yield BlockEvent(index=index, text=f"word{index} ", tokens=3, steps=5, converged=converged)
        yield finish(len(each), seed=request.seed or 0)

    return script


async def repeats(request: GenerateRequest, _: Any) -> AsyncIterator[Event]:
    yield block(0, "again and again and again")
    degeneration = Degeneration(repetition=0.9, repeats=True, distinct_2=0.1)
    yield finish(1, seed=request.seed or 0).model_copy(update={"degeneration": degeneration})


async def is_empty(request: GenerateRequest, _: Any) -> AsyncIterator[Event]:
    yield block(0, "")
    yield finish(1, seed=request.seed or 0)


def error(code: str) -> Script:
    return reports(ErrorEvent(code=code, message="told to"))


async def post(stack: Stack, *, stream: bool = False, **body: Any) -> tuple[str, str]:
    """The arm that answered, and what the client saw."""
    response = await stack.http.post("/v1/chat/completions", json=CHAT | {"stream": stream} | body)
    assert response.status_code == 200, response.text
    return response.headers["x-diffusion-arm"], response.text


CASES: dict[str, tuple[Script, str, list[bool]]] = {
    "the first canvas did not converge": (converges(False), "unconverged", STREAMED),
    "most canvases did not converge": (converges(True, False, False), "unconverged", [False]),
    "the answer repeats itself": (repeats, "repetition", [False]),
    "the answer is empty": (is_empty, "empty", STREAMED),
    "the answer ends at once": (says(), "empty", STREAMED),
    "logits are no numbers": (error("non_finite"), "non_finite", STREAMED),
    "the memory is used up": (error("out_of_memory"), "out_of_memory", STREAMED),
    "another revision has the address": (error("wrong_revision"), "wrong_revision", STREAMED),
    "the engine is full": (error("overloaded"), "overloaded", STREAMED),
}


@pytest.mark.parametrize(
    ("case", "stream"), [(case, stream) for case, (_, _, streamed) in CASES.items() for stream in streamed]
)
async def test_ar_takes_over_and_the_reason_is_counted(stack: Stack, case: str, stream: bool) -> None:
    script, reason, _ = CASES[case]
    diffusion = await stack.arm("stable", script, percent=100)
    ar = await stack.arm("fallback", says("Hello"))
    await stack.route(diffusion, ar)
    arm, text = await post(stack, stream=stream)
    assert arm == "fallback"
    assert "Hello" in text
    assert "word" not in text
    assert "again" not in text
    assert stack.arm_metric("fallbacks_total", diffusion, reason=reason) == 1


SENT: dict[str, tuple[Script, list[bool]]] = {
    "a later canvas did not converge": (converges(True, False), [True, False]),
    "a stream repeats itself at its end": (repeats, [True]),
    "text comes after a block that held it back": (says("", "Once"), [True, False]),
}


@pytest.mark.parametrize(
    ("case", "stream"), [(case, stream) for case, (_, streamed) in SENT.items() for stream in streamed]
)
async def test_what_is_good_enough_or_half_sent_is_sent(stack: Stack, case: str, stream: bool) -> None:
    diffusion = await stack.arm("stable", SENT[case][0], percent=100)
    ar = await stack.arm("fallback", says("Hello"))
    await stack.route(diffusion, ar)
    assert (await post(stack, stream=stream))[0] == "stable"
    assert ar.pods[0].requests == []


async def test_a_row_that_is_not_good_enough_is_freed(stack: Stack) -> None:
    async def goes_on(*_: Any) -> AsyncIterator[Event]:
        for index in range(10_000):
            yield BlockEvent(index=index, text="word ", tokens=3, steps=5, converged=False)

    diffusion = await stack.arm("stable", goes_on, percent=100)
    ar = await stack.arm("fallback", says("Hello"))
    await stack.route(diffusion, ar)
    assert (await post(stack, stream=True))[0] == "fallback"
    await eventually(diffusion.pods[0].cancelled.is_set)
    await eventually(lambda: stack.gateway.pool.in_flight(f"127.0.0.2:{diffusion.port}") == 0)


@pytest.mark.parametrize("stream", STREAMED)
async def test_an_unconverged_answer_is_better_than_none(stack: Stack, stream: bool) -> None:
    diffusion = await stack.arm("stable", converges(False, False), percent=100)
    ar = await stack.arm("fallback")
    await stack.route(diffusion, ar)
    arm, text = await post(stack, stream=stream)
    assert arm == "stable"
    assert "word0" in text
    assert "word1" in text


async def test_unconverged_answers_are_sent_where_somebody_set_the_cap_or_accepts_them(stack: Stack) -> None:
    diffusion = await stack.arm("stable", converges(False), percent=100)
    ar = await stack.arm("fallback", says("Hello"))
    await stack.route(diffusion, ar, generation=1)
    assert (await post(stack))[0] == "fallback"
    assert (await post(stack, sampler={"max_denoising_steps": 4}))[0] == "stable"
    await stack.route(diffusion, ar, generation=2, sampler={"maxDenoisingSteps": 10})
    assert (await post(stack))[0] == "stable"
    await stack.route(diffusion, ar, generation=3, routing={"onUnconverged": "Accept"})
    assert (await post(stack))[0] == "stable"


@pytest.mark.parametrize("code", ["wrong_revision", "overloaded"])
async def test_the_next_pod_is_asked_before_ar(stack: Stack, code: str) -> None:
    diffusion = await stack.arm("stable", error(code), says("from a pod"), percent=100)
    ar = await stack.arm("fallback", says("Hello"))
    await stack.route(diffusion, ar)
    for _ in range(6):
        assert (await post(stack))[0] == "stable"
    assert stack.arm_metric("fallbacks_total", diffusion, reason=code) == 0


async def test_a_pod_is_told_which_revision_it_should_be_and_ar_likewise(stack: Stack) -> None:
    diffusion = await stack.arm("stable", error("wrong_revision"), percent=100)
    ar = await stack.arm("fallback", says("Hello"))
    await stack.route(diffusion, ar)
    await post(stack)
    assert diffusion.pods[0].parameters[0]["revision"] == diffusion.revision
    assert ar.pods[0].parameters[0]["revision"] == ar.revision


async def test_pods_that_keep_failing_rest_and_are_probed_later() -> None:
    async with started(breaker_min_requests=3, breaker_open_seconds=0.3) as stack:
        diffusion = await stack.arm("stable", error("engine_error"), percent=100)
        ar = await stack.arm("fallback", says("Hello"))
        await stack.route(diffusion, ar)
        for _ in range(6):
            assert (await post(stack))[0] == "fallback"
        assert len(diffusion.pods[0].requests) < 6
        assert stack.arm_metric("fallbacks_total", diffusion, reason="breaker_open") >= 1
        assert stack.arm_metric("breaker_open", diffusion) == 1
        diffusion.pods[0].script = says("well again")

        async def answers() -> bool:
            return (await post(stack))[0] == "stable"

        for _ in range(400):
            if [await answers() for _ in range(3)] == [True] * 3:
                break
        assert stack.arm_metric("breaker_open", diffusion) == 0


async def test_pods_that_are_slow_rest() -> None:
    async with started(breaker_min_requests=2, breaker_slow_seconds=0.0001) as stack:
        diffusion = await stack.arm("stable", says("slowly"), percent=100)
        ar = await stack.arm("fallback", says("Hello"))
        await stack.route(diffusion, ar)
        assert [(await post(stack))[0] for _ in range(3)] == ["stable", "stable", "fallback"]


async def speaks_to_one(request: GenerateRequest, _: Any) -> AsyncIterator[Event]:
    """As a pod with a single row: it works at one request, and the others wait."""
    index = 0
    while request.messages[0].content == "the first" or await asyncio.Event().wait():
        yield block(index, "word ")
        index += 1
        await asyncio.sleep(0.01)


async def test_a_pod_with_more_requests_than_it_can_answer_rests_only_briefly() -> None:
    async with started(breaker_min_requests=1, breaker_open_seconds=0.1) as stack:
        diffusion = await stack.arm("stable", speaks_to_one, percent=100)
        ar = await stack.arm("fallback", says("Hello"))
        await stack.route(diffusion, ar, limits={"requestTimeout": "300ms"})
        first = {"model": "story", "messages": [{"role": "user", "content": "the first"}], "stream": True}
        async with stack.http.stream("POST", "/v1/chat/completions", json=first) as response:
            chunks = response.aiter_raw()
            await anext(chunks)
            for _ in range(4):
                assert (await post(stack))[0] == "fallback"
                await asyncio.sleep(0.15)
        assert stack.arm_metric("arm_failures_total", diffusion, reason="busy") == 4
        assert stack.arm_metric("arm_failures_total", diffusion, reason="breaker_open") == 0


async def test_streams_that_break_off_count_against_the_pod() -> None:
    async with started(breaker_min_requests=4) as stack:
        breaks = closes_with(grpc.StatusCode.INTERNAL, after=("Once",))
        diffusion = await stack.arm("stable", breaks, percent=100)
        ar = await stack.arm("fallback", says("Hello"))
        await stack.route(diffusion, ar)
        arms = [(await post(stack, stream=True))[0] for _ in range(3)]
        assert arms == ["stable", "stable", "fallback"]
        assert stack.arm_metric("arm_failures_total", diffusion, reason="engine_error") == 2


async def test_a_pod_that_left_and_came_back_starts_anew() -> None:
    async with started(breaker_min_requests=2, breaker_open_seconds=60) as stack:
        diffusion = await stack.arm("stable", error("engine_error"), percent=100)
        ar = await stack.arm("fallback", says("Hello"))
        await stack.route(diffusion, ar)
        for _ in range(3):
            await post(stack)
        assert stack.arm_metric("breaker_open", diffusion) == 1
        await stack.endpoints(diffusion)
        await eventually(lambda: stack.ready_pods(diffusion) == 0)
        diffusion.pods[0].script = says("well again")
        await stack.endpoints(diffusion, "127.0.0.2")
        await eventually(lambda: stack.ready_pods(diffusion) == 1)
        assert (await post(stack))[0] == "stable"
