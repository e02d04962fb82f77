"""A plain client of the API server: JSON in, JSON out, and watches with the time at which each change arrived."""

import asyncio
import base64
import json
import ssl
import tempfile
import time
from collections.abc import AsyncIterator, Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Self

import aiohttp
import yaml

from benchmarks.errors import BenchmarkError

Json = dict[str, Any]

MERGE = "application/merge-patch+json"


@dataclass(frozen=True)
class Change:
    """What a watch told. `at` is on the monotonic clock."""

    at: float
    type: str
    object: Json


class Api:
    """The API server that a kubeconfig names. An async context manager."""

    def __init__(self, kubeconfig: Path) -> None:
        config = yaml.safe_load(kubeconfig.read_text())
        cluster, user = config["clusters"][0]["cluster"], config["users"][0]["user"]
        context = ssl.create_default_context(cadata=_decoded(cluster["certificate-authority-data"]))
        with tempfile.NamedTemporaryFile("w", suffix=".pem") as file:
            file.write(_decoded(user["client-certificate-data"]) + _decoded(user["client-key-data"]))
            file.flush()
            context.load_cert_chain(file.name)
        self._http = aiohttp.ClientSession(
            cluster["server"],
            connector=aiohttp.TCPConnector(ssl=context, limit=16),
            timeout=aiohttp.ClientTimeout(total=120),
        )

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self._http.close()

    async def request(
        self, method: str, path: str, body: Json | None = None, *, content_type: str = "application/json"
    ) -> Json:
        """The answer; BenchmarkError when it is no success."""
        headers = {"Content-Type": content_type}
        async with self._http.request(method, path, json=body, headers=headers) as response:
            text = await response.text()
            if response.status >= 300:
                raise BenchmarkError(f"{method} {path}: {response.status} {text[:500]}")
            answer: Json = json.loads(text)
            return answer

    async def list(self, path: str) -> tuple[list[Json], str]:
        """All items, and the version from which a watch goes on."""
        answer = await self.request("GET", path)
        return answer["items"], answer["metadata"]["resourceVersion"]

    async def watch(self, path: str, *, since: str) -> AsyncIterator[Change]:
        """Changes as they come; BenchmarkError when the stream breaks."""
        query = {"watch": "1", "resourceVersion": since}
        async with self._http.get(path, params=query, timeout=aiohttp.ClientTimeout(), read_bufsize=2**22) as response:
            async for line in response.content:
                at, told = time.monotonic(), json.loads(line)
                if told["type"] == "ERROR":
                    raise BenchmarkError(f"the watch on {path} broke: {told['object'].get('message')}")
                yield Change(at, told["type"], told["object"])
        raise BenchmarkError(f"the watch on {path} ended")


class Follower:
    """Keeps what a watch tells, from now on. An async context manager; `changes` grows within the block."""

    def __init__(self, api: Api, path: str) -> None:
        self._api = api
        self._path = path
        self._task: asyncio.Task[None] | None = None
        self._news = asyncio.Event()
        self.changes: list[Change] = []

    async def __aenter__(self) -> Self:
        _, version = await self._api.list(f"{self._path}?limit=1")
        self._task = asyncio.create_task(self._follow(version))
        return self

    async def __aexit__(self, *_: object) -> None:
        if self._task:
            self._task.cancel()
            await asyncio.gather(self._task, return_exceptions=True)

    async def first(self, fits: Callable[[Change], bool], *, what: str, seconds: float) -> Change:
        """The first change that fits; BenchmarkError when none comes."""
        seen = 0
        try:
            async with asyncio.timeout(seconds):
                while True:
                    for change in self.changes[seen:]:
                        if fits(change):
                            return change
                    seen = len(self.changes)
                    self._news.clear()
                    await self._news.wait()
        except TimeoutError:
            raise BenchmarkError(f"{what}: not within {seconds:.0f} s") from None

    async def silence(self, seconds: float) -> None:
        """Return when nothing was told for so long."""
        while True:
            self._news.clear()
            try:
                async with asyncio.timeout(seconds):
                    await self._news.wait()
            except TimeoutError:
                return

    async def _follow(self, version: str) -> None:
        async for change in self._api.watch(self._path, since=version):
            self.changes.append(change)
            self._news.set()


def _decoded(text: str) -> str:
    return base64.b64decode(text).decode()
