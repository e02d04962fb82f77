"""Errors over HTTP: OpenAI's format everywhere, also where no endpoint is reached."""

import asyncio

import openai
import pytest

from tests.gateway.fake_triton import hangs, says
from tests.gateway.stack import MODELS, Stack, eventually, model_resource, started

BODY = {"model": "story", "prompt": "x"}


@pytest.mark.parametrize(
    ("method", "path", "body", "status", "code"),
    [
        ("GET", "/v1/nothing", b"", 404, "unknown_url"),
        ("GET", "/", b"", 404, "unknown_url"),
        ("GET", "/v1/completions", b"", 405, "method_not_allowed"),
        ("DELETE", "/v1/models/story", b"", 405, "method_not_allowed"),
        ("POST", "/v1/completions", b"{", 400, "invalid_json"),
        ("POST", "/v1/completions", b"", 400, "invalid_json"),
        ("POST", "/v1/completions", b"[1]", 400, "invalid_json"),
        ("POST", "/v1/chat/completions", b"\xff\xfe", 400, "invalid_json"),
        ("POST", "/v1/completions", b"[" * 100_000, 400, "invalid_json"),
        ("POST", "/v1/completions", b'{"model": "other", "prompt": "x"}', 404, "model_not_found"),
        ("POST", "/v1/completions", b'{"model": "story", "prompt": "x", "best_of": 2}', 400, "unsupported_parameter"),
    ],
)
async def test_errors_have_openais_form(
    stack: Stack, method: str, path: str, body: bytes, status: int, code: str
) -> None:
    await stack.route(await stack.arm("stable", says("x"), percent=100))
    response = await stack.http.request(method, path, content=body)
    assert response.status_code == status
    error = response.json()["error"]
    assert error.keys() == {"message", "type", "param", "code"}
    assert (error["type"], error["code"]) == ("invalid_request_error", code)
    assert response.headers["x-request-id"]


async def test_the_official_client_raises_its_own_errors(stack: Stack) -> None:
    await stack.route(await stack.arm("stable", says("x"), percent=100))
    with pytest.raises(openai.NotFoundError) as not_found:
        await stack.openai.completions.create(model="nobody", prompt="x")
    assert (not_found.value.code, not_found.value.param) == ("model_not_found", "model")
    assert "story" not in not_found.value.message
    with pytest.raises(openai.BadRequestError) as refused:
        await stack.openai.completions.create(model="story", prompt="x", temperature=3)
    assert refused.value.param == "temperature"


async def test_a_name_in_two_namespaces_stays_with_the_model_that_had_it_first(stack: Stack) -> None:
    arm = await stack.arm("stable", says("x"), percent=100)
    await stack.route(arm)
    await stack.api.put(MODELS, model_resource(arm, namespace="other"))
    await eventually(lambda: len(stack.gateway.table.models) == 2)
    assert (await stack.http.post("/v1/completions", json=BODY)).status_code == 200
    assert (await stack.http.post("/v1/completions", json=BODY | {"model": "default/story"})).status_code == 200
    assert [model.id async for model in stack.openai.models.list()] == ["story", "other/story"]


@pytest.mark.parametrize("declared", [True, False])
async def test_a_body_over_the_limit_is_refused(declared: bool) -> None:
    async def chunks():
        for _ in range(20):
            yield b"x" * 100

    async with started(max_body_bytes=1000) as stack:
        content = b"x" * 2000 if declared else chunks()
        response = await stack.http.post("/v1/completions", content=content)
        assert response.status_code == 413
        assert response.json()["error"]["code"] == "request_too_large"
        # The connection, or the next one, still works.
        assert (await stack.http.get("/healthz")).status_code == 200


async def test_more_requests_than_allowed_are_an_overload_and_the_next_one_is_served_again() -> None:
    async with started(max_in_flight=1) as stack:
        arm = await stack.arm("stable", hangs(), percent=100)
        await stack.route(arm)
        first = asyncio.create_task(stack.http.post("/v1/completions", json=BODY))
        await eventually(lambda: len(arm.pods[0].requests) == 1)
        with pytest.raises(openai.RateLimitError) as raised:
            await stack.openai.completions.create(**BODY)
        # Nothing has ended yet by which it could be told how soon this will.
        assert raised.value.response.headers["retry-after"] == "60"
        first.cancel()
        await eventually(lambda: stack.metric("requests_in_flight") == 0)
        arm.pods[0].script = says("x")
        assert (await stack.openai.completions.create(**BODY)).choices[0].text == "x"


async def test_long_requests_are_an_overload_before_they_fill_the_memory() -> None:
    async with started(max_body_bytes=1000) as stack:
        arm = await stack.arm("stable", hangs(), percent=100)
        await stack.route(arm)
        long = BODY | {"prompt": "x" * 950}
        held = [asyncio.create_task(stack.http.post("/v1/completions", json=long)) for _ in range(16)]
        await eventually(lambda: len(arm.pods[0].requests) == len(held))
        refused = await stack.http.post("/v1/completions", json=long)
        assert refused.status_code == 429
        assert refused.json()["error"]["code"] == "overloaded"
        for task in held:
            task.cancel()
        await eventually(lambda: stack.metric("requests_in_flight") == 0)
        arm.pods[0].script = says("x")
        assert (await stack.http.post("/v1/completions", json=long)).status_code == 200


async def test_readiness_follows_the_first_list_and_liveness_does_not(stack: Stack) -> None:
    stack.gateway.synced = lambda: False
    assert (await stack.http.get("/readyz")).status_code == 503
    assert (await stack.http.get("/healthz")).status_code == 200
    stack.gateway.synced = lambda: True
    assert (await stack.http.get("/readyz")).status_code == 200


async def test_before_the_first_list_a_model_is_not_said_to_be_missing(stack: Stack) -> None:
    await stack.route(await stack.arm("stable", says("x"), percent=100))
    stack.gateway.synced = lambda: False
    for method, path in (("POST", "/v1/completions"), ("GET", "/v1/models/other"), ("GET", "/v1/models")):
        response = await stack.http.request(method, path, json=BODY | {"model": "other"})
        assert (response.status_code, response.headers["retry-after"]) == (503, "1")
    assert (await stack.http.post("/v1/completions", json=BODY)).status_code == 200
    stack.gateway.synced = lambda: True
    assert (await stack.http.post("/v1/completions", json=BODY | {"model": "other"})).status_code == 404


async def test_a_mistake_of_ours_is_an_error_in_openais_form_too(stack: Stack, monkeypatch: pytest.MonkeyPatch) -> None:
    await stack.route(await stack.arm("stable", says("x"), percent=100))
    monkeypatch.setattr(stack.gateway, "dispatcher", None)
    response = await stack.http.post("/v1/completions", json=BODY, headers={"x-request-id": "find-me"})
    assert response.status_code == 500
    assert response.headers["x-request-id"] == "find-me"
    assert response.json()["error"]["type"] == "server_error"
    assert "find-me" in response.json()["error"]["message"]
    await eventually(lambda: stack.metric("requests_in_flight") == 0)


async def test_prompts_and_answers_are_not_logged(stack: Stack, capsys: pytest.CaptureFixture[str]) -> None:
    await stack.route(await stack.arm("stable", says("ANSWERTEXT"), percent=100))
    body = {"model": "story", "prompt": "PROMPTTEXT", "stop": ["STOPTEXT"]}
    await stack.http.post("/v1/completions", json=body, headers={"x-request-id": "find-me"})
    await stack.http.post("/v1/completions", json=body | {"temperature": 9})
    await eventually(lambda: stack.metric("requests_in_flight") == 0)
    logged = capsys.readouterr().out
    assert "find-me" in logged
    assert "TEXT" not in logged
