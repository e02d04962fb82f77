"""`fallback.endpoint`: an AR server of others as an arm, and how its answers and failures look from here."""

import asyncio
import socket
from typing import Any

import openai
import pytest
from diffusion_gateway.external.endpoints import Pace
from diffusion_operator.api.models import FallbackEndpoint, endpoint_hash
from diffusion_worker.wire import ErrorEvent

from tests.gateway.fake_openai import (
    FakeOpenAI,
    Json,
    Respond,
    begin,
    breaks_off,
    drops_the_connection,
    hangs,
    piece,
    refuses,
    says,
    send,
    sends,
)
from tests.gateway.fake_triton import reports
from tests.gateway.fake_triton import says as diffusion_says
from tests.gateway.stack import MODELS, Arm, Stack, eventually, model_resource, started

CHAT: Json = {"model": "story", "messages": [{"role": "user", "content": "x"}]}
PROMPT: Json = {"model": "story", "prompt": "once upon"}
FAILS = reports(ErrorEvent(code="engine_error", message="NaN in the canvas"))
QUICK = Pace(look=0.05, after_failure=0.05)


class External(Arm):
    """An arm that is a server."""

    server: FakeOpenAI
    secret: str | None = None

    def route(self) -> Json:
        ref = {"secretRef": {"name": self.secret, "key": "token"}} if self.secret else {}
        endpoint = {"url": self.server.url, "model": self.server.model, **ref}
        return {**super().route(), "service": "", "endpoint": endpoint}


async def external(
    stack: Stack, respond: Respond | None = None, *, role: str = "fallback", percent: int = 0
) -> External:
    server = FakeOpenAI(respond)
    await server.start()
    stack.pods.append(server)  # killed at the end
    stack.gateway.endpoints.pace = QUICK
    revision = endpoint_hash(FallbackEndpoint(url=server.url, model=server.model))
    arm = External(role=role, kind="ar", revision=revision, percent=percent, port=1, pods=[])
    arm.server = server
    return arm


async def alone(stack: Stack, respond: Respond | None = None) -> External:
    """All requests go to the server; nobody could take over."""
    arm = await external(stack, respond, role="stable", percent=100)
    await stack.route(arm)
    return arm


async def behind(stack: Stack, respond: Respond | None = None) -> tuple[Arm, External]:
    """Diffusion, whose engine fails, and the server behind it."""
    diffusion = await stack.arm("stable", FAILS, percent=100)
    ar = await external(stack, respond)
    await stack.route(diffusion, ar)
    return diffusion, ar


async def found(stack: Stack) -> list[Json]:
    """What the operator reads."""
    shown: dict[str, list[Json]] = (await stack.http.get(f"{stack.admin_url}/admin/endpoints")).json()["models"]
    return shown.get("default/story", [])


async def until_found(stack: Stack, **wanted: Any) -> Json:
    async with asyncio.timeout(10):
        while True:
            for status in await found(stack):
                if wanted.items() <= status.items():
                    return status
            await asyncio.sleep(0.02)


@pytest.mark.parametrize("stream", [True, False])
async def test_it_answers_where_diffusion_cannot(stack: Stack, stream: bool) -> None:
    diffusion, ar = await behind(stack)
    response = await stack.http.post("/v1/chat/completions", json=CHAT | {"stream": stream})
    assert response.status_code == 200
    assert (response.headers["x-diffusion-arm"], response.headers["x-diffusion-revision"]) == ("fallback", ar.revision)
    assert "outside" in response.text
    assert stack.arm_metric("fallbacks_total", diffusion, reason="engine_error") == 1
    await eventually(lambda: stack.arm_metric("requests_total", ar, code="200") == 1)


async def test_a_stream_is_ours_in_all_parts(stack: Stack) -> None:
    await alone(stack, says("Hello", " there", reason="length"))
    options = {"include_usage": True}
    stream = await stack.openai.chat.completions.create(**CHAT, stream=True, stream_options=options)
    chunks = [chunk async for chunk in stream]
    choices = [chunk.choices[0] for chunk in chunks if chunk.choices]
    assert [choice.delta.content or "" for choice in choices] == ["", "Hello", " there", ""]
    assert choices[-1].finish_reason == "length"
    assert {chunk.model for chunk in chunks} == {"story"}
    usage = chunks[-1].usage
    assert (usage.prompt_tokens, usage.completion_tokens) == (7, 3)


async def test_it_gets_what_the_client_asked_for_in_its_own_words(stack: Stack) -> None:
    ar = await alone(stack)
    asked = {
        "max_tokens": 50,
        "temperature": 0.5,
        "top_p": 0.9,
        "seed": 7,
        "stop": ["END"],
        "presence_penalty": 0.5,
        "frequency_penalty": 0.25,
        "logit_bias": {"12": -1.0},
    }
    await stack.http.post("/v1/chat/completions", json=CHAT | asked | {"user": "ann", "sampler": {"top_p": 0.5}})
    sent = {"model": "twin", "messages": CHAT["messages"], "stream": True, "stream_options": {"include_usage": True}}
    assert ar.server.requests == [{**sent, **asked}]


async def test_what_the_client_left_open_has_our_defaults_and_not_the_servers(stack: Stack) -> None:
    ar = await alone(stack)
    answer = (await stack.http.post("/v1/completions", json=PROMPT)).json()
    (sent,) = ar.server.requests
    assert (sent["prompt"], sent["max_tokens"], sent["temperature"], sent["top_p"]) == ("once upon", None, 1.0, 1.0)
    assert sent["seed"] == answer["usage"]["seed"]


async def test_a_completion_of_any_length_may_be_as_long_as_the_server_can(stack: Stack) -> None:
    ar = await external(stack, role="stable", percent=100)
    ar.server.max_model_len = 100
    await stack.route(ar)
    await until_found(stack, state="Ready")
    await stack.http.post("/v1/completions", json=PROMPT)  # of two tokens
    await stack.http.post("/v1/chat/completions", json=CHAT)
    assert [body["max_tokens"] for body in ar.server.requests] == [98, None]


async def test_each_choice_is_a_request_of_its_own(stack: Stack) -> None:
    ar = await alone(stack)
    answer = await stack.openai.chat.completions.create(**CHAT, n=3, seed=5)
    assert [choice.message.content for choice in answer.choices] == ["Hello from outside"] * 3
    assert len({body["seed"] for body in ar.server.requests}) == 3
    assert answer.usage.completion_tokens == 9


async def test_the_trace_goes_on(stack: Stack) -> None:
    ar = await alone(stack)
    trace_id = "0af7651916cd43dd8448eb211c80319c"
    headers = {"traceparent": f"00-{trace_id}-b7ad6b7169203331-01", "x-request-id": "mine"}
    await stack.http.post("/v1/chat/completions", json=CHAT, headers=headers)
    (sent,) = (each for each in ar.server.headers if each.get("x-request-id", "").startswith("mine"))
    assert trace_id in sent["traceparent"]
    assert "authorization" not in sent


async def test_logprobs_of_chats_and_completions_come_through(stack: Stack) -> None:
    async def respond(request: Any, body: Json) -> Any:
        response = await begin(request)
        top = {"token": "Hi", "logprob": -0.5, "bytes": [72, 105]}
        if "messages" in body:
            logprobs: Json = {
                "content": [{**top, "top_logprobs": [top, {"token": "Yo", "logprob": -2.0, "bytes": None}]}]
            }
        else:
            logprobs = {"tokens": ["Hi"], "token_logprobs": [-0.5], "top_logprobs": [{"Hi": -0.5, "Yo": -2.0}]}
        await send(response, piece("Hi", chat="messages" in body, logprobs=logprobs))
        await send(response, piece("", chat="messages" in body, finish_reason="stop"), "[DONE]")
        return response

    ar = await alone(stack, respond)
    chat = await stack.openai.chat.completions.create(**CHAT, logprobs=True, top_logprobs=2)
    (token,) = chat.choices[0].logprobs.content
    assert (token.token, token.logprob) == ("Hi", -0.5)
    assert [(top.token, top.logprob) for top in token.top_logprobs] == [("Hi", -0.5), ("Yo", -2.0)]
    text = await stack.openai.completions.create(**PROMPT, logprobs=2)
    assert text.choices[0].logprobs.top_logprobs == [{"Hi": -0.5, "Yo": -2.0}]
    assert [(body.get("logprobs"), body.get("top_logprobs")) for body in ar.server.requests] == [(True, 2), (2, None)]


async def test_a_server_without_usage_is_counted_by_its_chunks(stack: Stack) -> None:
    await alone(stack, says("one", " two", usage=None, done=False))
    answer = await stack.openai.chat.completions.create(**CHAT)
    assert (answer.usage.prompt_tokens, answer.usage.completion_tokens) == (0, 2)


FAILURES: dict[str, tuple[Respond, str]] = {
    "it refuses our key": (refuses(401), "unauthorized"),
    "it forbids the model": (refuses(403), "unauthorized"),
    "it has no such model": (refuses(404), "engine_error"),
    "it has too many requests": (refuses(429), "queue_full"),
    "it fails": (refuses(500), "engine_error"),
    "it starts": (refuses(503), "unavailable"),
    "its proxy gives up": (refuses(504), "timeout"),
    "it redirects": (refuses(307), "engine_error"),
    "it closes the connection": (drops_the_connection(), "unavailable"),
    "its stream ends too early": (breaks_off(), "unavailable"),
    "its stream has an error": (breaks_off(with_error={"message": "CUDA", "code": 500}), "engine_error"),
    "its stream has an error of load": (breaks_off(with_error={"message": "busy", "code": 429}), "queue_full"),
    "it sends what is no JSON": (sends("data: {oops\n\n"), "engine_error"),
    "it sends what is no chunk": (sends('data: {"choices": 7}\n\n'), "engine_error"),
    "it does not stream": (sends("{}", content_type="application/json"), "engine_error"),
}


@pytest.mark.parametrize("case", FAILURES)
async def test_what_fails_has_its_reason(stack: Stack, case: str) -> None:
    respond, reason = FAILURES[case]
    ar = await alone(stack, respond)
    response = await stack.http.post("/v1/chat/completions", json=CHAT | {"stream": True})
    assert response.status_code == (429 if reason == "queue_full" else 503), response.text
    assert stack.arm_metric("arm_failures_total", ar, reason=reason) == 1


async def test_nobody_listens(stack: Stack) -> None:
    ar = await alone(stack)
    await ar.server.kill()
    assert (await stack.http.post("/v1/chat/completions", json=CHAT)).status_code == 503
    assert stack.arm_metric("arm_failures_total", ar, reason="unavailable") == 1


async def test_what_it_refuses_is_a_clear_400(stack: Stack) -> None:
    ar = await alone(stack, refuses(400, "logit_bias has an invalid token id", param="logit_bias"))
    response = await stack.http.post("/v1/chat/completions", json=CHAT)
    assert response.status_code == 400
    told = response.json()["error"]
    assert told["message"].endswith("refuses the request: logit_bias has an invalid token id")
    assert (told["param"], told["code"]) == ("logit_bias", "invalid_value")
    assert stack.arm_metric("arm_failed_requests_total", ar) == 0


async def test_a_prompt_that_is_too_long_for_it_has_openais_code(stack: Stack) -> None:
    await alone(stack, refuses(400, "This model's maximum context length is 4096 tokens."))
    with pytest.raises(openai.BadRequestError) as refused:
        await stack.openai.chat.completions.create(**CHAT)
    assert refused.value.code == "context_length_exceeded"


async def test_a_stream_that_breaks_in_the_middle_ends_with_an_error(stack: Stack) -> None:
    ar = await alone(stack, drops_the_connection("Hello"))
    response = await stack.http.post("/v1/chat/completions", json=CHAT | {"stream": True})
    assert response.status_code == 200
    assert "Hello" in response.text
    assert "answer_broken_off" in response.text
    assert "[DONE]" not in response.text
    await eventually(lambda: stack.arm_metric("arm_failed_requests_total", ar) == 1)


async def test_a_client_that_leaves_closes_the_request_there(stack: Stack) -> None:
    ar = await alone(stack, hangs("Hello"))
    async with stack.http.stream("POST", "/v1/chat/completions", json=CHAT | {"stream": True}) as response:
        await anext(response.aiter_bytes())
    async with asyncio.timeout(10):
        await ar.server.gone.wait()


async def test_silence_is_a_timeout() -> None:
    async with started(silence_seconds=0.2) as stack:
        ar = await alone(stack, hangs())
        assert (await stack.http.post("/v1/chat/completions", json=CHAT)).status_code == 503
        assert stack.arm_metric("arm_failures_total", ar, reason="timeout") == 1
        async with asyncio.timeout(10):
            await ar.server.gone.wait()


async def test_its_breaker_opens_and_diffusion_answers_what_was_meant_for_it() -> None:
    async with started(breaker_min_requests=2) as stack:
        diffusion = await stack.arm("stable", diffusion_says("Hi"), percent=100)
        ar = await external(stack, refuses(500))
        await stack.route(diffusion, ar)
        short = CHAT | {"max_tokens": 4}  # by rule for AR
        for _ in range(3):
            assert (await stack.http.post("/v1/chat/completions", json=short)).status_code == 200
        assert len(ar.server.requests) == 2
        assert stack.arm_metric("fallbacks_total", ar, reason="breaker_open") == 1
        assert stack.arm_metric("breaker_open", ar) == 1


async def test_what_is_found_is_shown(stack: Stack) -> None:
    ar = await alone(stack)
    shown = await until_found(stack, state="Ready", scores=["chats", "completions"])
    assert shown["revision"] == ar.revision
    routes = (await stack.http.get(f"{stack.admin_url}/admin/routes")).json()
    (arm,) = routes["models"]["default/story"]["arms"]
    assert (arm["readyPods"], arm["service"]) == (1, "")
    assert stack.arm_metric("ready_pods", ar) == 1
    await ar.server.kill()
    shown = await until_found(stack, state="Unreachable")
    assert shown["message"] == f"GET {ar.server.url}/models: no connection"
    assert stack.arm_metric("ready_pods", ar) == 0
    await ar.server.start()
    await until_found(stack, state="Ready")


async def test_it_is_looked_at_before_it_is_an_arm(stack: Stack) -> None:
    ar = await external(stack)
    resource = model_resource(fallback={"endpoint": ar.route()["endpoint"]})
    await stack.api.put(MODELS, resource)
    assert (await until_found(stack, state="Ready"))["revision"] == ar.revision


@pytest.mark.parametrize(
    ("status", "state", "says"),
    [(401, "Unauthorized", "secretRef names none"), (404, "Unreachable", "often /v1"), (500, "Unreachable", "500")],
)
async def test_why_it_is_not_ready_is_told(stack: Stack, status: int, state: str, says: str) -> None:
    ar = await external(stack, role="stable", percent=100)
    ar.server.models_status = status
    await stack.route(ar)
    assert says in (await until_found(stack, state=state))["message"]


async def test_a_host_without_an_address_is_told(stack: Stack, monkeypatch: pytest.MonkeyPatch) -> None:
    loop = asyncio.get_running_loop()
    resolve = loop.getaddrinfo

    async def getaddrinfo(host: Any, *args: Any, **more: Any) -> Any:
        if host == "vllm.invalid":
            raise socket.gaierror(socket.EAI_NONAME, "Name or service not known")
        return await resolve(host, *args, **more)

    monkeypatch.setattr(loop, "getaddrinfo", getaddrinfo)
    ar = await external(stack, role="stable", percent=100)
    route = ar.route()
    route["endpoint"]["url"] = "http://vllm.invalid:8000/v1"
    ar.route = lambda: route  # type: ignore[method-assign]
    await stack.route(ar)
    shown = await until_found(stack, state="Unreachable")
    assert shown["message"] == "GET http://vllm.invalid:8000/v1/models: the host has no address"


async def test_a_model_that_it_does_not_have_is_told(stack: Stack) -> None:
    ar = await external(stack, role="stable", percent=100)
    route = ar.route()
    ar.server.model = "another"
    ar.route = lambda: route  # type: ignore[method-assign]
    await stack.route(ar)
    shown = await until_found(stack, state="ModelMissing")
    assert shown["message"] == "the server does not know twin; it lists another"


async def keyed(stack: Stack, *keys: str) -> External:
    ar = await external(stack, role="stable", percent=100)
    ar.secret = "vllm"
    ar.server.keys = set(keys)
    return ar


async def test_a_key_is_taken_from_its_secret(stack: Stack) -> None:
    stack.api.secrets["default", "vllm"] = {"token": "s3cret\n"}
    ar = await keyed(stack, "s3cret")
    await stack.route(ar)
    assert (await stack.http.post("/v1/chat/completions", json=CHAT)).status_code == 200
    await until_found(stack, state="Ready")


async def test_a_key_that_was_changed_is_taken_without_a_restart(stack: Stack) -> None:
    stack.api.secrets["default", "vllm"] = {"token": "old"}
    ar = await keyed(stack, "old")
    await stack.route(ar)
    await until_found(stack, state="Ready")
    ar.server.keys = {"new"}
    await until_found(stack, state="Unauthorized")
    stack.api.secrets["default", "vllm"] = {"token": "new"}
    await until_found(stack, state="Ready")
    assert (await stack.http.post("/v1/chat/completions", json=CHAT)).status_code == 200


async def test_no_key_is_told_and_never_shown(stack: Stack, capfd: pytest.CaptureFixture[str]) -> None:
    ar = await keyed(stack, "s3cret")
    await stack.route(ar)
    assert "there is no Secret vllm" in (await until_found(stack, state="SecretMissing"))["message"]
    stack.api.secrets["default", "vllm"] = {"other": "s3cret"}
    await until_found(stack, message="Secret vllm has no entry token: add it, or correct secretRef.key")
    response = await stack.http.post("/v1/chat/completions", json=CHAT)
    assert response.status_code == 503
    assert stack.arm_metric("arm_failures_total", ar, reason="unauthorized") == 1
    assert "s3cret" not in capfd.readouterr().out + response.text


async def test_a_gateway_that_may_not_read_secrets_says_so(stack: Stack) -> None:
    stack.api.secret_status = 403
    await stack.route(await keyed(stack))
    assert "gateway.readSecrets" in (await until_found(stack, state="SecretMissing"))["message"]


async def test_a_key_stays_while_the_api_server_is_away(stack: Stack) -> None:
    stack.api.secrets["default", "vllm"] = {"token": "s3cret"}
    ar = await keyed(stack, "s3cret")
    await stack.route(ar)
    await until_found(stack, state="Ready")
    await stack.api.stop()
    looks = ar.server.looks
    await eventually(lambda: ar.server.looks > looks + 2)
    assert [status["state"] for status in await found(stack)] == ["Ready"]
    await stack.api.start()


@pytest.mark.parametrize(("body", "prompt_tokens"), [(CHAT, 3), (PROMPT, 2)], ids=["chats", "completions"])
@pytest.mark.parametrize("says_usage", [True, False])
async def test_it_scores_pairs(stack: Stack, body: Json, prompt_tokens: int, says_usage: bool) -> None:
    stack.sample = 0.0
    words = " once upon a time there was a cat that sat on the mat in the sun"
    diffusion = await stack.arm("stable", diffusion_says(words), percent=100)
    usage = {"prompt_tokens": prompt_tokens, "completion_tokens": 16} if says_usage else None
    ar = await external(stack, says(*[f" {word}" for word in words.replace("cat", "dog").split()], usage=usage))
    ar.server.nats = lambda text: 1.5 if "cat" in text else 1.0
    await stack.route(diffusion, ar)
    await until_found(stack, scores=["chats", "completions"])
    path = "/v1/chat/completions" if "messages" in body else "/v1/completions"
    ar.server.scored.clear()
    assert (await stack.http.post(path, json=body | {"max_tokens": 64})).status_code == 200
    labels = {
        "model_namespace": "default",
        "model": "story",
        "revision": diffusion.revision,
        "ar_revision": ar.revision,
    }
    await eventually(lambda: stack.metric("pairs_total", **labels) == 1)
    assert stack.metric("pair_nll_above_total", **labels) == pytest.approx(0.5)
    assert stack.metric("pair_text_bytes_total", **labels, side="diffusion") == len(words)
    assert stack.metric("pair_tokens_total", **labels, side="ar") == 16
    assert len(ar.server.scored) == (2 if says_usage else 4)  # the prompt's length is asked for where it is not known


async def test_a_server_that_cannot_score_gets_no_pairs(stack: Stack) -> None:
    stack.sample = 0.0
    diffusion = await stack.arm("stable", diffusion_says("Hello"), percent=100)
    ar = await external(stack)
    ar.server.scores = set()
    await stack.route(diffusion, ar)
    await until_found(stack, scores=[])
    assert (await stack.http.post("/v1/chat/completions", json=CHAT)).status_code == 200
    assert stack.metric("pairs_waiting") == 0
    assert ar.server.requests == []


async def test_another_gateway_is_such_a_server_too(stack: Stack) -> None:
    """Streaming and errors of our own API are what an endpoint must have."""
    async with started() as inner:
        await inner.route(await inner.arm("stable", diffusion_says("Once", " upon"), percent=100))
        outer = Arm("stable", "ar", "0badc0de", 100, 1, [])
        endpoint = {"url": f"{inner.url}/v1", "model": "default/story"}
        route = {**outer.route(), "service": "", "endpoint": endpoint}
        outer.route = lambda: route  # type: ignore[method-assign]
        stack.gateway.endpoints.pace = QUICK
        await stack.route(outer)
        await until_found(stack, state="Ready", scores=[])
        stream = await stack.openai.chat.completions.create(**CHAT, stream=True)
        assert "".join([chunk.choices[0].delta.content or "" async for chunk in stream]) == "Once upon"
        answer = await stack.openai.completions.create(**PROMPT, max_tokens=20)
        assert answer.choices[0].text == "Once upon"
        with pytest.raises(openai.BadRequestError):
            await stack.openai.chat.completions.create(**CHAT, logprobs=True)
