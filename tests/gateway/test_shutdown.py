"""SIGTERM to the real process."""

import asyncio
import contextlib
import json
import signal
import sys
from collections.abc import AsyncIterator
from pathlib import Path

import httpx2
import pytest

from tests.gateway.fake_api import FakeApi
from tests.gateway.fake_triton import FakeTriton, Script, hangs, waits_for
from tests.gateway.stack import MODELS, SLICES, Arm, eventually, model_resource, slice_resource

BODY = {"model": "story", "prompt": "x", "stream": True}


class Process:
    """`diffusion-gateway run` as a child."""

    def __init__(self, child: asyncio.subprocess.Process) -> None:
        self.child = child
        self.lines: list[dict[str, object]] = []
        self.reading = asyncio.create_task(self._read())

    async def _read(self) -> None:
        assert self.child.stdout is not None
        async for line in self.child.stdout:
            self.lines.append(json.loads(line))

    def event(self, name: str) -> dict[str, object] | None:
        return next((line for line in self.lines if line["event"] == name), None)


@contextlib.asynccontextmanager
async def gateway_process(
    tmp_path: Path, script: Script, *arguments: str
) -> AsyncIterator[tuple[Process, FakeTriton, str]]:
    api, pod = FakeApi(), FakeTriton(script)
    await api.start()
    await pod.start("127.0.0.1")
    arm = Arm("stable", "diffusion", "aaaa0001", 100, pod.port, [pod])
    await api.put(MODELS, model_resource(arm))
    await api.put(SLICES, slice_resource(arm.service, "127.0.0.1"))
    kubeconfig = tmp_path / "kubeconfig"
    kubeconfig.write_text(
        json.dumps(
            {
                "current-context": "fake",
                "contexts": [{"name": "fake", "context": {"cluster": "fake", "user": "fake"}}],
                "clusters": [{"name": "fake", "cluster": {"server": f"http://127.0.0.1:{api.port}"}}],
                "users": [{"name": "fake", "user": {}}],
            }
        )
    )
    child = await asyncio.create_subprocess_exec(
        *(sys.executable, "-m", "diffusion_gateway", "run", "--host=127.0.0.1", "--port=0", "--admin-port=0"),
        f"--kubeconfig={kubeconfig}",
        *arguments,
        stdout=asyncio.subprocess.PIPE,
    )
    process = Process(child)
    try:
        await eventually(lambda: process.event("gateway listens") is not None, seconds=30)
        url = f"http://127.0.0.1:{process.event('gateway listens')['port']}"
        async with httpx2.AsyncClient() as http, asyncio.timeout(30):
            while (await http.get(f"{url}/readyz")).status_code != 200:  # noqa: ASYNC110 - another process
                await asyncio.sleep(0.05)
        yield process, pod, url
    finally:
        if child.returncode is None:
            child.kill()
        await child.wait()
        await process.reading
        await pod.kill()
        await api.stop()


async def test_streams_finish_before_the_process_ends_with_0(tmp_path: Path) -> None:
    go_on = asyncio.Event()
    script = waits_for(go_on, before=("Once",), after=(" upon",))
    async with gateway_process(tmp_path, script) as (process, _, url), httpx2.AsyncClient(timeout=20) as http:
        async with http.stream("POST", f"{url}/v1/completions", json=BODY) as response:
            lines = response.aiter_lines()
            assert "Once" in await anext(lines)
            process.child.send_signal(signal.SIGTERM)
            await eventually(lambda: process.event("gateway drains") is not None)
            with pytest.raises(httpx2.ConnectError):
                async with httpx2.AsyncClient() as newcomer, asyncio.timeout(10):
                    while True:
                        # Who was connecting in that moment is hung up on; who comes after it is refused.
                        with contextlib.suppress(httpx2.RemoteProtocolError, httpx2.ReadError):
                            await newcomer.get(f"{url}/healthz")
            go_on.set()
            rest = [line async for line in lines if line]
        assert " upon" in rest[0]
        assert rest[-1] == "data: [DONE]"
        assert await process.child.wait() == 0


async def test_a_stream_that_outlasts_the_drain_time_ends_with_an_error(tmp_path: Path) -> None:
    async with gateway_process(tmp_path, hangs("Once"), "--drain-seconds=0.5") as (process, pod, url):
        async with (
            httpx2.AsyncClient(timeout=20) as http,
            http.stream("POST", f"{url}/v1/completions", json=BODY) as response,
        ):
            lines = response.aiter_lines()
            assert "Once" in await anext(lines)
            process.child.send_signal(signal.SIGTERM)
            rest = [line async for line in lines if line]
        assert "the gateway is shutting down" in rest[-1]
        assert await process.child.wait() == 0
        await asyncio.wait_for(pod.cancelled.wait(), 5)


async def test_without_access_to_kubernetes_it_says_what_to_do(tmp_path: Path) -> None:
    child = await asyncio.create_subprocess_exec(
        *(sys.executable, "-m", "diffusion_gateway", "run", "--port=0", "--admin-port=0"),
        env={"PATH": ""},
        stderr=asyncio.subprocess.PIPE,
    )
    _, stderr = await child.communicate()
    assert child.returncode == 2
    assert b"--kubeconfig" in stderr
    assert len(stderr.splitlines()) == 1


async def test_without_keys_where_they_should_be_it_says_so_and_lets_nobody_in(tmp_path: Path) -> None:
    child = await asyncio.create_subprocess_exec(
        *(sys.executable, "-m", "diffusion_gateway", "run", "--port=0", "--admin-port=0", f"--api-keys-dir={tmp_path}"),
        stderr=asyncio.subprocess.PIPE,
    )
    _, stderr = await child.communicate()
    assert child.returncode == 2
    assert b"holds no API key" in stderr
    assert len(stderr.splitlines()) == 1
