"""The counts of the arms add up to the requests, and say of each arm what the operator judges it by."""

from collections.abc import AsyncIterator
from typing import Any

import grpc
import pytest
from diffusion_worker.wire import Degeneration, ErrorEvent, GenerateRequest

from tests.gateway.fake_triton import Event, block, closes_with, finish, reports, says
from tests.gateway.stack import Arm, Stack, eventually

BROKEN = ErrorEvent(code="engine_error", message="broken")
BODY = {"model": "story", "prompt": "once upon", "max_tokens": 64}
LENGTHS = ("1-32", "33-64", "65-128", "129-256", "257-512", "513-1024", "1025+")


def answers(stack: Stack, arm: Arm) -> float:
    return sum(stack.arm_metric("answers_total", arm, length=length) for length in LENGTHS)


async def test_the_sum_over_the_arms_is_the_number_of_requests(stack: Stack) -> None:
    stable = await stack.arm("stable", says("one"), percent=60)
    canary = await stack.arm("canary", reports(BROKEN), percent=40)
    ar = await stack.arm("fallback", says("two"))
    arms = (stable, canary, ar)
    await stack.route(*arms)
    total = 40
    for number in range(total):
        stack.random = number / total
        response = await stack.http.post("/v1/completions", json=BODY)
        assert response.status_code == 200
    answered = {arm.role: stack.arm_metric("requests_total", arm, code="200") for arm in arms}
    asked = {arm.role: stack.arm_metric("arm_requests_total", arm) for arm in arms}
    failed = {arm.role: stack.arm_metric("arm_failed_requests_total", arm) for arm in arms}
    assert sum(answered.values()) == total
    assert failed == {"stable": 0, "canary": asked["canary"], "fallback": 0}
    assert answered == {role: asked[role] - failed[role] for role in asked}
    fallbacks = [
        stack.arm_metric("fallbacks_total", canary, reason=reason) for reason in ("engine_error", "breaker_open")
    ]
    assert sum(fallbacks) == asked["canary"] == answered["fallback"] > 0
    assert {arm.role: answers(stack, arm) for arm in arms} == answered


async def test_when_all_fail_each_arm_has_failed_once_and_nobody_answered(stack: Stack) -> None:
    stable = await stack.arm("stable", closes_with(grpc.StatusCode.UNAVAILABLE), percent=100)
    ar = await stack.arm("fallback", reports(BROKEN))
    await stack.route(stable, ar)
    assert (await stack.http.post("/v1/completions", json=BODY)).status_code == 503
    assert [stack.arm_metric("arm_failed_requests_total", arm) for arm in (stable, ar)] == [1, 1]
    nobody = {"model_namespace": "default", "model": "story", "arm": "", "revision": "", "kind": ""}
    assert stack.metric("requests_total", **nobody, code="503") == 1


async def test_an_arm_that_breaks_off_after_the_first_text_has_failed_once(stack: Stack) -> None:
    stable = await stack.arm("stable", closes_with(grpc.StatusCode.UNAVAILABLE, after=("one",)), percent=100)
    ar = await stack.arm("fallback", says("two"))
    await stack.route(stable, ar)
    response = await stack.http.post("/v1/completions", json=BODY | {"stream": True})
    assert "answer_broken_off" in response.text
    await eventually(lambda: stack.arm_metric("requests_total", stable, code="502") == 1)
    assert stack.arm_metric("arm_requests_total", stable) == 1
    assert stack.arm_metric("arm_failed_requests_total", stable) == 1
    assert answers(stack, stable) == 0


@pytest.mark.parametrize("code", ["invalid_request", "context_length_exceeded"])
async def test_a_request_that_is_at_fault_itself_is_not_the_arms_failure(stack: Stack, code: Any) -> None:
    stable = await stack.arm("stable", reports(ErrorEvent(code=code, message="too long")), percent=100)
    await stack.route(stable)
    assert (await stack.http.post("/v1/completions", json=BODY)).status_code == 400
    assert stack.arm_metric("arm_requests_total", stable) == 1
    assert stack.arm_metric("arm_failed_requests_total", stable) == 0


async def test_a_repeating_answer_counts_for_its_arm_although_another_one_is_sent(stack: Stack) -> None:
    async def repeats(request: Any, _: Any) -> AsyncIterator[Event]:
        yield block(0, "the the the")
        end = finish(1, seed=request.seed)
        yield end.model_copy(update={"degeneration": Degeneration(repetition=1, repeats=True, distinct_2=0.1)})

    stable = await stack.arm("stable", repeats, percent=100)
    ar = await stack.arm("fallback", says("two"))
    await stack.route(stable, ar)
    response = await stack.http.post("/v1/completions", json=BODY)
    assert response.headers["x-diffusion-arm"] == "fallback"
    assert [stack.arm_metric(f"{name}_answers_total", stable) for name in ("checked", "repeating")] == [1, 1]
    assert stack.arm_metric("fallbacks_total", stable, reason="repetition") == 1
    assert stack.arm_metric("arm_failed_requests_total", stable) == 0


async def test_an_answer_ends_when_its_last_event_arrives_whoever_reads_it_when(stack: Stack) -> None:
    arm = await stack.arm("stable", says("one", "two"), percent=100)
    await stack.route(arm)
    stream = stack.gateway.pool.open(f"127.0.0.2:{arm.port}", GenerateRequest(request_id="r", prompt="x"))
    await eventually(lambda: stream.ended_at is not None)
    ended_at = stream.ended_at
    for _ in range(3):
        await stream.next(timeout_seconds=10)
    assert (stream.ended_at, stream.held_up) == (ended_at, False)
    await stream.task


async def test_a_reader_so_slow_that_the_pod_waits_is_noticed(stack: Stack) -> None:
    arm = await stack.arm("stable", says(*["x"] * 200), percent=100)
    await stack.route(arm)
    stream = stack.gateway.pool.open(f"127.0.0.2:{arm.port}", GenerateRequest(request_id="r", prompt="x"))
    await eventually(lambda: stream.held_up)
    for _ in range(201):
        await stream.next(timeout_seconds=10)
    await stream.task
    assert stream.held_up
