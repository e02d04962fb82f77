"""Until the first event a failure costs the client only time; after it, an error ends the stream and nobody else speaks."""

import asyncio
import json
import socket

import grpc
import openai
import pytest
from diffusion_worker.wire import ErrorEvent

from tests.gateway.fake_triton import (
    Script,
    closes_with,
    hangs,
    reports,
    says,
    sends_raw,
    triton_says,
)
from tests.gateway.stack import SLICES, Arm, Stack, eventually, slice_resource, started

CHAT = {"model": "story", "messages": [{"role": "user", "content": "x"}]}
ENGINE_ERROR = ErrorEvent(code="engine_error", message="NaN in the canvas")
LEAVING = ErrorEvent(code="shutting_down", message="draining")

BEFORE_THE_FIRST_EVENT: dict[str, tuple[Script, str]] = {
    "the pod goes away": (closes_with(grpc.StatusCode.UNAVAILABLE), "unavailable"),
    "the stream is cancelled by the server": (closes_with(grpc.StatusCode.CANCELLED), "unavailable"),
    "the model is being unloaded": (
        triton_says("Request for unknown model: 'dlm' has no available versions"),
        "unavailable",
    ),
    "the worker drains": (reports(LEAVING), "unavailable"),
    "the queue is full": (triton_says("Exceeds maximum queue size"), "queue_full"),
    "the wait in the queue was too long": (triton_says("Request timeout expired"), "queue_full"),
    "the engine fails": (reports(ENGINE_ERROR), "engine_error"),
    "the stub is dead": (triton_says("Stub process 'dlm_0_0' is not healthy."), "engine_error"),
    "Triton fails": (closes_with(grpc.StatusCode.INTERNAL), "engine_error"),
}


@pytest.mark.parametrize("stream", [True, False])
@pytest.mark.parametrize("case", BEFORE_THE_FIRST_EVENT)
async def test_ar_takes_over_before_the_first_event(stack: Stack, case: str, stream: bool) -> None:
    script, reason = BEFORE_THE_FIRST_EVENT[case]
    diffusion = await stack.arm("stable", script, percent=100)
    ar = await stack.arm("fallback", says("Hello"))
    await stack.route(diffusion, ar)
    response = await stack.http.post("/v1/chat/completions", json=CHAT | {"stream": stream})
    assert response.status_code == 200
    assert response.headers["x-diffusion-arm"] == "fallback"
    assert "Hello" in response.text
    assert stack.arm_metric("fallbacks_total", diffusion, reason=reason) == 1
    await eventually(lambda: stack.arm_metric("requests_total", ar, code="200") == 1)
    # The same question, with the same seed.
    assert diffusion.pods[0].requests == ar.pods[0].requests


async def test_ar_takes_over_when_no_pod_listens(stack: Stack) -> None:
    diffusion = await stack.arm("stable", says("never"), percent=100)
    ar = await stack.arm("fallback", says("Hello"))
    await stack.route(diffusion, ar)
    await diffusion.pods[0].kill()
    answer = await stack.openai.chat.completions.create(**CHAT)
    assert answer.choices[0].message.content == "Hello"
    assert stack.arm_metric("fallbacks_total", diffusion, reason="unavailable") == 1


async def test_ar_takes_over_when_no_pod_is_ready(stack: Stack) -> None:
    diffusion = await stack.arm("stable", percent=100)
    ar = await stack.arm("fallback", says("Hello"))
    await stack.route(diffusion, ar)
    answer = await stack.openai.chat.completions.create(**CHAT)
    assert answer.choices[0].message.content == "Hello"
    assert stack.arm_metric("fallbacks_total", diffusion, reason="no_ready_pod") == 1


async def test_ar_takes_over_when_a_pod_is_silent_and_the_row_is_cancelled(stack: Stack) -> None:
    diffusion = await stack.arm("stable", hangs(), percent=100)
    ar = await stack.arm("fallback", says("Hello"))
    await stack.route(diffusion, ar, limits={"requestTimeout": "100ms"})
    answer = await stack.openai.chat.completions.create(**CHAT)
    assert answer.choices[0].message.content == "Hello"
    assert stack.arm_metric("fallbacks_total", diffusion, reason="timeout") == 1
    async with asyncio.timeout(30):
        await diffusion.pods[0].cancelled.wait()


async def test_ar_takes_over_when_a_pod_accepts_connections_and_is_frozen(stack: Stack) -> None:
    # The kernel accepts, and nobody is there to speak.
    with socket.create_server(("127.0.0.2", 0)) as frozen:
        diffusion = await stack.arm("stable", percent=100)
        diffusion.port = frozen.getsockname()[1]
        await stack.endpoints(diffusion, "127.0.0.2")
        ar = await stack.arm("fallback", says("Hello"))
        await stack.route(diffusion, ar)
        answer = await stack.openai.chat.completions.create(**CHAT)
    assert answer.choices[0].message.content == "Hello"
    assert stack.arm_metric("fallbacks_total", diffusion, reason="unavailable") == 1


async def test_a_worker_of_another_release_that_sends_strange_events_is_an_engine_error(stack: Stack) -> None:
    diffusion = await stack.arm("stable", sends_raw(b'{"type": "telepathy"}'), percent=100)
    ar = await stack.arm("fallback", says("Hello"))
    await stack.route(diffusion, ar)
    answer = await stack.openai.chat.completions.create(**CHAT)
    assert answer.choices[0].message.content == "Hello"
    assert stack.arm_metric("fallbacks_total", diffusion, reason="engine_error") == 1


async def test_another_pod_of_the_arm_is_asked_first_when_one_is_gone(stack: Stack) -> None:
    diffusion = await stack.arm("stable", says("from a pod"), says("from a pod"), percent=100)
    ar = await stack.arm("fallback", says("from AR"))
    await stack.route(diffusion, ar)
    await diffusion.pods[0].kill()
    for _ in range(6):
        answer = await stack.openai.chat.completions.create(**CHAT)
        assert answer.choices[0].message.content == "from a pod"
    assert stack.arm_metric("fallbacks_total", diffusion, reason="unavailable") == 0
    # The pod that failed is asked last for a while, not first each time.
    assert stack.arm_metric("arm_failures_total", diffusion, reason="unavailable") <= 1


@pytest.mark.parametrize("how", ["error", "connection"])
async def test_a_stream_that_breaks_off_ends_with_an_error_and_no_second_voice(stack: Stack, how: str) -> None:
    script = (
        hangs("Once", " upon")
        if how == "connection"
        else closes_with(grpc.StatusCode.INTERNAL, after=("Once", " upon"))
    )
    diffusion = await stack.arm("stable", script, percent=100)
    ar = await stack.arm("fallback", says("Hello"))
    await stack.route(diffusion, ar)
    texts = []
    with pytest.raises(openai.APIError, match="broke off") as raised:
        async for chunk in await stack.openai.chat.completions.create(**CHAT, stream=True):
            texts.append(chunk.choices[0].delta.content)
            if how == "connection" and texts[-1] == " upon":
                await diffusion.pods[0].kill()
    assert raised.value.code == "answer_broken_off"
    assert texts == ["", "Once", " upon"]
    assert ar.pods[0].requests == []
    await eventually(lambda: stack.arm_metric("requests_total", diffusion, code="502") == 1)


async def test_a_broken_stream_has_no_done(stack: Stack) -> None:
    diffusion = await stack.arm("stable", closes_with(grpc.StatusCode.INTERNAL, after=("Once",)), percent=100)
    await stack.route(diffusion)
    response = await stack.http.post("/v1/chat/completions", json=CHAT | {"stream": True})
    last = response.text.strip().split("\n\n")[-1]
    assert json.loads(last.removeprefix("data: "))["error"]["code"] == "answer_broken_off"


async def test_an_answer_in_one_piece_may_fail_late_and_ar_still_takes_over(stack: Stack) -> None:
    diffusion = await stack.arm(
        "stable", closes_with(grpc.StatusCode.UNAVAILABLE, after=("Once", " upon")), percent=100
    )
    ar = await stack.arm("fallback", says("Hello"))
    await stack.route(diffusion, ar)
    answer = await stack.openai.chat.completions.create(**CHAT)
    assert answer.choices[0].message.content == "Hello"


async def test_a_worker_that_falls_silent_in_the_middle_does_not_hang_the_client() -> None:
    async with started(silence_seconds=0.3) as stack:
        diffusion = await stack.arm("stable", hangs("Once"), percent=100)
        await stack.route(diffusion)
        response = await stack.http.post("/v1/chat/completions", json=CHAT | {"stream": True})
        assert "it sent nothing for too long" in response.text
        async with asyncio.timeout(30):
            await diffusion.pods[0].cancelled.wait()


async def test_the_deadline_ends_a_request_that_nobody_answers() -> None:
    async with started(request_timeout_seconds=0.3) as stack:
        await stack.route(await stack.arm("stable", hangs(), percent=100))
        with pytest.raises(openai.InternalServerError) as raised:
            await stack.openai.chat.completions.create(**CHAT)
        assert raised.value.status_code == 503


async def test_when_nobody_is_left_the_client_learns_what_happened(stack: Stack) -> None:
    diffusion = await stack.arm("stable", reports(ENGINE_ERROR), percent=100)
    ar = await stack.arm("fallback")
    await stack.route(diffusion, ar)
    response = await stack.http.post("/v1/chat/completions", json=CHAT)
    assert response.status_code == 503
    error = response.json()["error"]
    assert error["code"] == "model_unavailable"
    assert "the stable arm (diffusion): its engine failed; the fallback arm (ar): no pod is ready" in error["message"]
    assert response.headers["retry-after"] == "1"
    assert stack.arm_metric("arm_failures_total", ar, reason="no_ready_pod") == 1


async def test_full_queues_everywhere_are_an_overload(stack: Stack) -> None:
    full = triton_says("Exceeds maximum queue size")
    diffusion, ar = await stack.arm("stable", full, percent=100), await stack.arm("fallback", full)
    await stack.route(diffusion, ar)
    with pytest.raises(openai.RateLimitError) as raised:
        await stack.openai.chat.completions.create(**CHAT)
    assert raised.value.response.headers["retry-after"] == "1"
    assert raised.value.code == "overloaded"


@pytest.mark.parametrize("stream", [True, False])
async def test_a_request_that_the_worker_refuses_is_not_sent_to_another(stack: Stack, stream: bool) -> None:
    refusal = ErrorEvent(
        code="context_length_exceeded",
        message="The prompt has 4000 tokens, the limit is 2048. Shorten it.",
        param="prompt_token_ids",
    )
    diffusion, ar = await stack.arm("stable", reports(refusal), percent=100), await stack.arm("fallback", says("Hello"))
    await stack.route(diffusion, ar)
    response = await stack.http.post("/v1/completions", json={"model": "story", "prompt": [1, 2], "stream": stream})
    assert response.status_code == 400
    assert response.json()["error"] == {
        "message": refusal.message,
        "type": "invalid_request_error",
        "param": "prompt",
        "code": "context_length_exceeded",
    }
    assert ar.pods[0].requests == []


async def test_pods_that_are_all_said_to_be_not_ready_are_asked_all_the_same(stack: Stack) -> None:
    """After the API server was away Kubernetes calls every pod of a node unready for some seconds."""
    diffusion = await stack.arm("stable", says("Once"), percent=100)
    ar = await stack.arm("fallback", says("Hello"))
    await stack.route(diffusion, ar)
    for arm in (diffusion, ar):
        await _is_said_to_be_not_ready(stack, arm)
    answer = await stack.openai.chat.completions.create(**CHAT)
    assert answer.choices[0].message.content == "Once"


async def test_a_pod_that_is_not_ready_is_not_asked_while_another_arm_has_one(stack: Stack) -> None:
    diffusion = await stack.arm("stable", says("Once"), percent=100)
    ar = await stack.arm("fallback", says("Hello"))
    await stack.route(diffusion, ar)
    await _is_said_to_be_not_ready(stack, diffusion)
    answer = await stack.openai.chat.completions.create(**CHAT)
    assert answer.choices[0].message.content == "Hello"
    assert not diffusion.pods[0].requests


async def _is_said_to_be_not_ready(stack: Stack, arm: Arm) -> None:
    await stack.api.put(SLICES, slice_resource(arm.service, "127.0.0.2", ready=False))
    await eventually(lambda: stack.ready_pods(arm) == 0)
