"""Traces: from the client through the gateway to the worker, in the log, and to OpenTelemetry where a collector is configured."""

import asyncio
import re
import threading

import pytest
import structlog
from diffusion_worker.wire import ErrorEvent

from tests.gateway.collector import collecting
from tests.gateway.fake_triton import reports, says
from tests.gateway.stack import Stack, eventually, started

TRACE, SPAN = "4bf92f3577b34da6a3ce929d0e0e4736", "00f067aa0ba902b7"
SAMPLED = {"traceparent": f"00-{TRACE}-{SPAN}-01"}
CHAT = {"model": "story", "messages": [{"role": "user", "content": "my secret prompt"}]}


async def test_the_clients_trace_reaches_the_worker_and_the_log(stack: Stack) -> None:
    arm = await stack.arm("stable", says("x"), percent=100)
    await stack.route(arm)
    with structlog.testing.capture_logs() as logs:
        await stack.http.post("/v1/chat/completions", json=CHAT, headers=SAMPLED)
    (line,) = [line for line in logs if line["event"] == "request"]
    assert line["trace_id"] == TRACE
    told = arm.pods[0].parameters[0]["traceparent"]
    assert re.fullmatch(rf"00-{TRACE}-[0-9a-f]{{16}}-01", told)
    assert SPAN not in told


async def test_without_one_a_trace_begins_here(stack: Stack) -> None:
    arm = await stack.arm("stable", says("x"), percent=100)
    await stack.route(arm)
    with structlog.testing.capture_logs() as logs:
        for _ in range(2):
            await stack.http.post("/v1/chat/completions", json=CHAT)
    told = [each["traceparent"].split("-") for each in arm.pods[0].parameters]
    assert [line["trace_id"] for line in logs if line["event"] == "request"] == [parts[1] for parts in told]
    assert told[0][1] != told[1][1]
    assert {parts[3] for parts in told} == {"00"}  # nobody collects it


async def test_the_log_never_holds_text_of_prompt_or_answer(stack: Stack) -> None:
    await stack.route(await stack.arm("stable", says("my secret answer"), percent=100))
    with structlog.testing.capture_logs() as logs:
        await stack.http.post("/v1/chat/completions", json=CHAT | {"user": "my secret self"})
        await stack.http.post("/v1/completions", json={"model": "story", "prompt": "my secret prompt", "stop": 5})
    assert len([line for line in logs if line["event"] == "request"]) == 2
    assert "secret" not in repr(logs)


async def test_a_request_and_each_arm_that_was_asked_are_spans_of_one_trace() -> None:
    async with collecting() as collector:
        async with started(otlp_endpoint=collector.url) as stack:
            fails = reports(ErrorEvent(code="engine_error", message="NaN"))
            ar = await stack.arm("fallback", says("from AR"))
            await stack.route(await stack.arm("stable", fails, percent=100), ar)
            response = await stack.http.post("/v1/chat/completions", json=CHAT, headers=SAMPLED)
            assert response.json()["choices"][0]["message"]["content"] == "from AR"
        await collector.expect(3)
        request = collector.by_name("POST /v1/chat/completions")
        failed, answered = collector.by_name("ask stable"), collector.by_name("ask fallback")
    assert {span.trace_id for span in (request, failed, answered)} == {TRACE}
    assert request.parent_id == SPAN
    assert failed.parent_id == answered.parent_id == request.span_id
    assert (request.failed, failed.failed, answered.failed) == (False, True, False)
    assert failed.attributes["error.type"] == "engine_error"
    assert answered.attributes["diffusion.revision"] == "fall0001"
    assert answered.attributes["gen_ai.usage.output_tokens"] == 3
    assert request.attributes["http.response.status_code"] == 200
    assert request.attributes["gen_ai.request.model"] == "default/story"
    assert request.service == "diffusion-gateway"
    assert request.seconds >= failed.seconds + answered.seconds > 0
    assert ar.pods[0].parameters[0]["traceparent"] == f"00-{TRACE}-{request.span_id}-01"
    assert "secret" not in repr(collector.spans)
    assert "from AR" not in repr(collector.spans)


async def test_probes_are_not_traced_and_clients_decide_for_their_own_traces() -> None:
    async with collecting() as collector:
        async with started(otlp_endpoint=collector.url) as stack:
            await stack.http.get("/healthz")
            await stack.http.get("/v1/models", headers={"traceparent": f"00-{TRACE}-{SPAN}-00"})
            await stack.http.get("/v1/models/nobody")
        await collector.expect(1)
        assert [(span.name, span.attributes["http.response.status_code"]) for span in collector.spans] == [
            ("GET /v1/models/{name}", 404)
        ]


async def test_a_share_of_the_requests_is_traced() -> None:
    async with collecting() as collector:
        async with started(otlp_endpoint=collector.url, trace_sample_percent=0.0) as stack:
            await stack.http.get("/v1/models")
            await stack.http.get("/v1/models", headers=SAMPLED)
        await collector.expect(1)
        assert [span.trace_id for span in collector.spans] == [TRACE]


@pytest.mark.parametrize("is_silent", [False, True], ids=["refuses", "never answers"])
async def test_a_collector_that_is_away_costs_no_request_and_no_long_goodbye(is_silent: bool) -> None:
    asking: list[asyncio.StreamWriter] = []

    async def say_nothing(_: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        asking.append(writer)

    server = await asyncio.start_server(say_nothing, "127.0.0.1", 0)
    url = f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}"
    if not is_silent:
        server.close()
    async with asyncio.timeout(20), started(otlp_endpoint=url) as stack:
        await stack.route(await stack.arm("stable", says("x"), percent=100))
        assert (await stack.http.post("/v1/chat/completions", json=CHAT)).status_code == 200
    if is_silent:
        await eventually(lambda: bool(asking))
    server.close()
    for writer in asking:
        writer.transport.abort()
    await server.wait_closed()
    # Its connection ends with its thread; left open it would be the next test's.
    await eventually(lambda: all(thread.name != "OtelBatchSpanRecordProcessor" for thread in threading.enumerate()))
