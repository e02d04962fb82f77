"""API keys and pages of other origins."""

import json
from collections.abc import AsyncIterator
from pathlib import Path

import openai
import pytest
import structlog

from tests.gateway.fake_triton import says
from tests.gateway.stack import Stack, eventually, started

CHAT = {"model": "story", "messages": [{"role": "user", "content": "hi"}]}


@pytest.fixture
async def locked(tmp_path: Path) -> AsyncIterator[Stack]:
    """A gateway that wants a key."""
    (tmp_path / "team").write_text("sk-good\n")
    async with started(api_keys_dir=str(tmp_path)) as stack:
        arm = await stack.arm("stable", says("hello"), percent=100)
        await stack.route(arm)
        yield stack


async def test_the_official_client_gets_in_with_a_key(locked: Stack) -> None:
    answer = await locked.openai.with_options(api_key="sk-good").chat.completions.create(**CHAT)
    assert answer.choices[0].message.content == "hello"


async def test_a_wrong_key_is_the_official_clients_authentication_error(locked: Stack) -> None:
    with pytest.raises(openai.AuthenticationError) as refused:
        await locked.openai.with_options(api_key="sk-bad").chat.completions.create(**CHAT)
    assert refused.value.code == "invalid_api_key"
    assert refused.value.response.headers["www-authenticate"] == "Bearer"
    assert "sk-bad" not in refused.value.response.text


@pytest.mark.parametrize("header", [None, "", "Bearer", "Basic c2stZ29vZA==", "sk-good", "Bearer sk-good2"])
@pytest.mark.parametrize("path", ["/v1/models", "/v1/models/story", "/v1/nothing", "/v1/chat/completions"])
async def test_without_a_good_key_nothing_of_the_api_answers(locked: Stack, path: str, header: str | None) -> None:
    headers = {} if header is None else {"authorization": header}
    for response in (
        await locked.http.get(path, headers=headers),
        await locked.http.post(path, headers=headers, json=CHAT),
    ):
        assert response.status_code == 401
        assert response.json()["error"]["type"] == "invalid_request_error"


async def test_refused_requests_are_counted(locked: Stack) -> None:
    before = locked.metric("refused_keys_total")
    await locked.http.post("/v1/chat/completions", json=CHAT)
    await locked.http.post("/v1/chat/completions", json=CHAT, headers={"authorization": "Bearer sk-good"})
    assert locked.metric("refused_keys_total") == before + 1


async def test_health_needs_no_key(locked: Stack) -> None:
    for path in ("/healthz", "/readyz"):
        assert (await locked.http.get(path)).status_code == 200


@pytest.mark.parametrize("path", ["/metrics", "/admin/routes", "/admin/endpoints"])
async def test_what_is_for_operators_is_on_the_admin_port_alone(stack: Stack, path: str) -> None:
    assert (await stack.http.get(path)).status_code == 404
    assert (await stack.http.get(f"{stack.admin_url}{path}")).status_code == 200


async def test_a_key_goes_in_and_out_of_force_without_a_restart(locked: Stack, tmp_path: Path) -> None:
    async def status(key: str) -> int:
        return (await locked.http.get("/v1/models", headers={"authorization": f"Bearer {key}"})).status_code

    (tmp_path / "team").write_text("sk-next\n")
    await eventually(lambda: locked.gateway.keys.current().has("sk-next"))
    assert (await status("sk-next"), await status("sk-good")) == (200, 401)


async def test_a_secret_that_breaks_is_our_fault_and_not_the_clients(locked: Stack, tmp_path: Path) -> None:
    (tmp_path / "team").write_text("")
    await eventually(lambda: locked.gateway.keys.current() is None)
    response = await locked.http.get("/v1/models", headers={"authorization": "Bearer sk-good"})
    assert response.status_code == 503
    assert "API keys of this gateway cannot be read" in response.json()["error"]["message"]


async def test_keys_are_never_logged(locked: Stack) -> None:
    with structlog.testing.capture_logs() as logs:
        for key in ("sk-good", "sk-bad"):
            await locked.http.post("/v1/chat/completions", json=CHAT, headers={"authorization": f"Bearer {key}"})
    assert [line["code"] for line in logs if line["event"] == "request"] == [200, 401]
    assert "sk-" not in json.dumps(logs)


async def test_pages_of_other_origins_get_nothing_by_default(stack: Stack) -> None:
    response = await stack.http.get("/v1/models", headers={"origin": "https://chat.example.com"})
    assert "access-control-allow-origin" not in response.headers


async def test_pages_of_an_allowed_origin_may_ask_before_they_show_their_key(tmp_path: Path) -> None:
    (tmp_path / "team").write_text("sk-good\n")
    page = "https://chat.example.com"
    async with started(api_keys_dir=str(tmp_path), cors_origins=(page,)) as stack:
        asked = {
            "origin": page,
            "access-control-request-method": "POST",
            "access-control-request-headers": "authorization,content-type,x-stainless-lang",
        }
        preflight = await stack.http.options("/v1/chat/completions", headers=asked)
        assert preflight.status_code == 200
        assert preflight.headers["access-control-allow-origin"] == page
        assert "x-stainless-lang" in preflight.headers["access-control-allow-headers"]
        refused = await stack.http.get("/v1/models", headers={"origin": page})
        assert refused.status_code == 401
        assert refused.headers["access-control-allow-origin"] == page
        assert "x-request-id" in refused.headers["access-control-expose-headers"]
        stranger = await stack.http.options("/v1/models", headers=asked | {"origin": "https://evil.example.com"})
        assert stranger.status_code == 400
        assert "access-control-allow-origin" not in stranger.headers
