"""Which arm and pod a request goes to."""

import asyncio
import json
from collections.abc import AsyncIterator

import pytest
from diffusion_gateway import app
from diffusion_worker.wire import GenerateRequest

from tests.gateway.fake_triton import Event, finish, hangs, says, waits_for
from tests.gateway.stack import Stack, eventually, started

BODY = {"model": "story", "prompt": "x"}


async def arm_of(stack: Stack, *, force: str | None = None, **body: object) -> str:
    headers = {"x-diffusion-arm": force} if force else {}
    response = await stack.http.post("/v1/completions", json=BODY | body, headers=headers)
    return response.headers.get("x-diffusion-arm", response.json().get("error", {}).get("param"))


async def test_arms_are_drawn_by_weight_and_a_new_table_counts_at_once(stack: Stack) -> None:
    stable, canary = await stack.arm("stable", says("x"), percent=90), await stack.arm("canary", says("x"), percent=10)
    ar = await stack.arm("fallback", says("x"))
    await stack.route(stable, canary, ar)
    stack.random = 0.11
    assert await arm_of(stack) == "stable"
    stack.random = 0.09
    assert await arm_of(stack) == "canary"
    stable.percent, canary.percent = 100, 0
    await stack.route(stable, canary, ar, generation=2)
    assert await arm_of(stack) == "stable"


async def test_short_outputs_go_to_ar_and_are_counted(stack: Stack) -> None:
    stable, ar = await stack.arm("stable", says("x"), percent=100), await stack.arm("fallback", says("x"))
    await stack.route(stable, ar, routing={"minOutputTokens": 16})
    assert await arm_of(stack, max_tokens=15) == "fallback"
    assert await arm_of(stack, max_tokens=16) == "stable"
    assert await arm_of(stack) == "stable"
    assert stack.metric("ruled_requests_total", model_namespace="default", model="story", rule="short_output") == 1


async def test_what_only_ar_can_honour_goes_to_ar_and_is_counted(stack: Stack) -> None:
    stable, ar = await stack.arm("stable", says("x"), percent=100), await stack.arm("fallback", says("x"))
    await stack.route(stable, ar)
    assert await arm_of(stack, presence_penalty=0.5) == "fallback"
    assert await arm_of(stack, logprobs=0) == "fallback"
    assert await arm_of(stack, presence_penalty=0) == "stable"
    assert ar.pods[0].requests[0].presence_penalty == 0.5
    assert (
        stack.metric("ruled_requests_total", model_namespace="default", model="story", rule="autoregressive_only") == 2
    )


async def test_what_only_ar_can_honour_is_refused_where_there_is_no_ar(stack: Stack) -> None:
    stable, ar = await stack.arm("stable", says("x"), percent=100), await stack.arm("fallback", says("x"))
    await stack.route(stable)
    response = await stack.http.post("/v1/completions", json=BODY | {"logit_bias": {"5": 1}})
    error = response.json()["error"]
    assert (response.status_code, error["param"], error["code"]) == (400, "logit_bias", "unsupported_parameter")
    assert "no such arm" in error["message"]
    await stack.route(stable, ar, generation=2)
    forced = await stack.http.post(
        "/v1/completions", json=BODY | {"frequency_penalty": 1}, headers={"x-diffusion-arm": "stable"}
    )
    assert (forced.status_code, forced.json()["error"]["param"]) == (400, "frequency_penalty")
    assert "do not force" in forced.json()["error"]["message"]
    assert stable.pods[0].requests == []


async def test_without_ar_the_diffusion_arm_answers_short_requests_too(stack: Stack) -> None:
    stable, ar = await stack.arm("stable", says("x"), percent=100), await stack.arm("fallback")
    await stack.route(stable, ar)
    assert await arm_of(stack, max_tokens=1) == "stable"


async def test_a_header_forces_an_arm_and_nobody_takes_over(stack: Stack) -> None:
    stable, ar = await stack.arm("stable", says("x"), percent=100), await stack.arm("fallback", says("x"))
    await stack.route(stable, ar)
    assert await arm_of(stack, force="fallback") == "fallback"
    assert await arm_of(stack, force="canary") == "x-diffusion-arm"
    assert await arm_of(stack, force="nonsense") == "x-diffusion-arm"
    await stack.endpoints(stable)
    await eventually(lambda: stack.ready_pods(stable) == 0)
    response = await stack.http.post("/v1/completions", json=BODY, headers={"x-diffusion-arm": "stable"})
    assert response.status_code == 503


async def test_the_pod_with_the_fewest_rows_is_asked(stack: Stack) -> None:
    go_on = asyncio.Event()
    slow = waits_for(go_on, before=(), after=("x",))
    stable = await stack.arm("stable", slow, slow, slow, percent=100)
    await stack.route(stable)
    waiting = [asyncio.create_task(arm_of(stack)) for _ in range(6)]
    await eventually(lambda: sum(len(pod.requests) for pod in stable.pods) == 6)
    assert [len(pod.requests) for pod in stable.pods] == [2, 2, 2]
    go_on.set()
    assert await asyncio.gather(*waiting) == ["stable"] * 6


async def test_a_pod_that_is_no_longer_ready_gets_nothing_and_finishes_what_it_has(stack: Stack) -> None:
    go_on = asyncio.Event()
    stable = await stack.arm("stable", waits_for(go_on, before=("Once",), after=(" upon",)), says("x"), percent=100)
    await stack.route(stable)
    await stack.endpoints(stable, "127.0.0.2")
    await eventually(lambda: stack.ready_pods(stable) == 1)
    stream = await stack.openai.completions.create(model="story", prompt="x", stream=True)
    texts = [(await anext(stream)).choices[0].text]
    await stack.endpoints(stable, "127.0.0.3")
    await eventually(lambda: stack.gateway.table.pods != {} and "127.0.0.2" not in str(stack.gateway.table.pods))
    for _ in range(4):
        assert await arm_of(stack) == "stable"
    assert len(stable.pods[0].requests) == 1
    go_on.set()
    texts += [chunk.choices[0].text async for chunk in stream]
    assert "".join(texts) == "Once upon"


async def test_the_admin_port_shows_what_is_in_force(stack: Stack) -> None:
    stable, ar = await stack.arm("stable", says("x"), says("x"), percent=100), await stack.arm("fallback")
    await stack.route(stable, ar, generation=3)
    response = await stack.http.get(f"{stack.admin_url}/admin/routes")
    assert response.json() == {
        "models": {
            "default/story": {
                "generation": 3,
                "arms": [stable.route() | {"readyPods": 2}, ar.route() | {"readyPods": 0}],
            }
        }
    }
    assert (await stack.http.get(f"{stack.admin_url}/readyz")).status_code == 200
    # Clients have no business there.
    assert (await stack.http.get("/admin/routes")).status_code == 404


async def test_a_model_without_routes_says_that_it_is_starting(stack: Stack) -> None:
    await stack.route()
    response = await stack.http.post("/v1/completions", json=BODY)
    assert response.status_code == 503
    assert "no route yet" in response.json()["error"]["message"]


async def test_a_client_that_leaves_frees_the_row(stack: Stack) -> None:
    stable = await stack.arm("stable", hangs("Once"), percent=100)
    await stack.route(stable)
    async with stack.http.stream("POST", "/v1/completions", json=BODY | {"stream": True}) as response:
        async for line in response.aiter_lines():
            assert "Once" in line
            break
    async with asyncio.timeout(30):
        await stable.pods[0].cancelled.wait()
    await eventually(lambda: stack.arm_metric("requests_total", stable, code="499") == 1)
    assert stack.metric("requests_in_flight") == 0


async def test_a_client_that_leaves_before_the_first_event_frees_the_row_and_asks_nobody_else(stack: Stack) -> None:
    stable, ar = await stack.arm("stable", hangs(), percent=100), await stack.arm("fallback", says("x"))
    await stack.route(stable, ar)
    asking = asyncio.create_task(stack.http.post("/v1/completions", json=BODY))
    await eventually(lambda: len(stable.pods[0].requests) == 1)
    asking.cancel()
    async with asyncio.timeout(30):
        await stable.pods[0].cancelled.wait()
    await eventually(lambda: stack.metric("requests_in_flight") == 0)
    assert ar.pods[0].requests == []


async def test_a_finished_stream_is_read_to_its_natural_end(stack: Stack) -> None:
    """Triton 2.51 leaks a model reference when a client hangs up on the last event."""
    answered = asyncio.Event()

    async def ends_late(request: GenerateRequest, _: object) -> AsyncIterator[Event]:
        yield finish(0, seed=request.seed or 0)
        await answered.wait()

    stable = await stack.arm("stable", ends_late, percent=100)
    await stack.route(stable)
    await stack.openai.completions.create(model="story", prompt="x")
    answered.set()
    async with asyncio.timeout(30):
        await stable.pods[0].read_to_the_end.wait()
    assert not stable.pods[0].cancelled.is_set()


async def test_a_client_that_does_not_read_ends_at_the_deadline_and_blocks_nobody(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(app, "_SLOW_READER_SECONDS", 0.5)
    async with started(request_timeout_seconds=0.5) as stack:
        stable = await stack.arm("stable", says(*["x" * 500_000] * 200), percent=100)
        await stack.route(stable)
        body = json.dumps(BODY | {"stream": True})
        host, port = stack.url.removeprefix("http://").split(":")
        _, writer = await asyncio.open_connection(host, int(port), limit=1)
        head = f"POST /v1/completions HTTP/1.1\r\nhost: x\r\ncontent-length: {len(body)}\r\n\r\n"
        writer.write((head + body).encode())
        await eventually(lambda: len(stable.pods[0].requests) == 1)
        stable.pods[0].script = says("quick")
        assert (await stack.http.post("/v1/completions", json=BODY)).json()["choices"][0]["text"] == "quick"
        await eventually(lambda: stack.metric("requests_in_flight") == 0)
        await asyncio.wait_for(stable.pods[0].cancelled.wait(), 30)
        writer.close()


async def test_a_user_stays_on_an_arm_whether_named_in_the_body_or_in_a_header(stack: Stack) -> None:
    stable, canary = await stack.arm("stable", says("x"), percent=50), await stack.arm("canary", says("x"), percent=50)
    await stack.route(stable, canary, routing={"sticky": "user"})
    arms = {}
    for user in map(str, range(8)):
        arms[user] = await arm_of(stack, user=user)
        stack.random = 0.999 - stack.random
        assert await arm_of(stack, user=user) == arms[user]
        response = await stack.http.post("/v1/completions", json=BODY, headers={"x-diffusion-user": user})
        assert response.headers["x-diffusion-arm"] == arms[user]
    assert set(arms.values()) == {"stable", "canary"}


async def test_causal_work_goes_to_ar_by_field_by_header_and_by_its_looks(stack: Stack) -> None:
    stable, ar = await stack.arm("stable", says("x"), percent=100), await stack.arm("fallback", says("x"))
    await stack.route(stable, ar)
    assert await arm_of(stack, workload="math") == "fallback"
    assert await arm_of(stack, prompt="def add(a, b):\n    return") == "fallback"
    assert await arm_of(stack, prompt="def add(a, b):\n    return", workload="general") == "stable"
    assert await arm_of(stack, prompt="Once upon a time") == "stable"
    response = await stack.http.post("/v1/completions", json=BODY, headers={"x-diffusion-workload": "code"})
    assert response.headers["x-diffusion-arm"] == "fallback"
    for rule in ("math", "code", "detected_code"):
        assert stack.metric("ruled_requests_total", model_namespace="default", model="story", rule=rule) == 1
    await stack.route(stable, ar, generation=2, routing={"detectWorkload": False, "causalWorkloads": ["math"]})
    assert await arm_of(stack, prompt="def add(a, b):\n    return") == "stable"
    assert await arm_of(stack, workload="code") == "stable"


async def test_a_kind_of_work_that_nobody_knows_is_refused_by_name(stack: Stack) -> None:
    await stack.route(await stack.arm("stable", says("x"), percent=100))
    assert await arm_of(stack, workload="poetry") == "workload"
    response = await stack.http.post("/v1/completions", json=BODY, headers={"x-diffusion-workload": "poetry"})
    assert (response.status_code, response.json()["error"]["param"]) == (400, "x-diffusion-workload")
