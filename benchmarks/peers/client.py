"""The load client: OpenAI's API over HTTP, the same for every server. Runs in the benchmark's own process."""

import asyncio
import json
import time
from collections.abc import AsyncIterator, Coroutine
from dataclasses import dataclass, field
from typing import Any, TypeVar

import aiohttp

from benchmarks.errors import BenchmarkError
from benchmarks.peers.work import Answer, Answers, Done, RealLoad, Request, SameWork

T = TypeVar("T")

_REQUEST_SECONDS = 600.0
_COUNTS_END_OF_TURN = "stop"


@dataclass(frozen=True)
class Client:
    """A server under its address."""

    url: str  # up to and with /v1
    model: str
    extra: dict[str, Any] = field(default_factory=dict)  # more fields for the bodies of same-work requests
    counts_end: bool = False  # whether the server's usage counts the token that ends a turn

    def same_work(self, work: SameWork) -> Done:
        """Send the prompts, `concurrency` at a time."""
        return self._run(self._same_work(work))

    def real_load(self, load: RealLoad) -> Answers:
        """Send each request at its time, whatever has become of those before it."""
        return self._run(self._real_load(load))

    def _run(self, work: Coroutine[Any, Any, T]) -> T:
        try:
            return asyncio.run(work)
        except (aiohttp.ClientError, TimeoutError) as error:
            raise BenchmarkError(f"no answer from {self.url}: {error!r}; see the logs in .bench/logs") from error

    async def _same_work(self, work: SameWork) -> Done:
        room = asyncio.Semaphore(work.concurrency)

        async def one(prompt: str) -> int:
            async with room:
                body = {
                    "model": self.model,
                    "prompt": prompt,
                    "max_tokens": work.tokens,
                    "temperature": 1.0,
                    **self.extra,
                }
                async with session.post(f"{self.url}/completions", json=body) as response:
                    return int((await _content(response))["usage"]["completion_tokens"])

        async with _session() as session:
            started = time.monotonic()
            tokens = await asyncio.gather(*(one(prompt) for prompt in work.prompts))
            seconds = time.monotonic() - started
        if set(tokens) != {work.tokens}:
            raise BenchmarkError(
                f"{self.url} was asked for {work.tokens} tokens each, but answered with {sorted(set(tokens))}"
            )
        return Done(tokens=sum(tokens), seconds=seconds)

    async def _real_load(self, load: RealLoad) -> Answers:
        async with _session() as session:
            started = time.monotonic()

            async def one(request: Request) -> Answer:
                await asyncio.sleep(max(0.0, started + request.at - time.monotonic()))
                return await self._stream(session, request)

            return Answers(answers=tuple(await asyncio.gather(*(one(request) for request in load.requests))))

    async def _stream(self, session: aiohttp.ClientSession, request: Request) -> Answer:
        arrived, first, tokens, reason = time.monotonic(), None, None, None
        body = {
            "model": self.model,
            "messages": [{"role": "user", "content": request.content}],
            "max_tokens": request.max_tokens,
            "temperature": 1.0,
            "stream": True,
            "stream_options": {"include_usage": True},
        }
        async with session.post(f"{self.url}/chat/completions", json=body) as response:
            if response.status != 200:
                await _content(response)
            async for chunk in _chunks(response):
                for choice in chunk.get("choices", []):
                    reason = choice.get("finish_reason") or reason
                    if first is None and choice["delta"].get("content"):
                        first = time.monotonic() - arrived
                if chunk.get("usage"):
                    tokens = int(chunk["usage"]["completion_tokens"])
        total = time.monotonic() - arrived
        if tokens is None:
            raise BenchmarkError(
                f"{self.url} ended an answer without usage; does it know stream_options.include_usage?"
            )
        if self.counts_end and reason == _COUNTS_END_OF_TURN:
            tokens -= 1
        return Answer(tokens=tokens, first_block_seconds=total if first is None else first, total_seconds=total)


def _session() -> aiohttp.ClientSession:
    return aiohttp.ClientSession(
        timeout=aiohttp.ClientTimeout(total=_REQUEST_SECONDS), connector=aiohttp.TCPConnector(limit=0)
    )


async def _content(response: aiohttp.ClientResponse) -> Any:
    text = await response.text()
    if response.status != 200:
        raise BenchmarkError(f"{response.url} answered {response.status}: {text[:500]}")
    return json.loads(text)


async def _chunks(response: aiohttp.ClientResponse) -> AsyncIterator[dict[str, Any]]:
    """The events of a stream, up to `[DONE]`."""
    async for line in response.content:
        data = line.decode().strip().removeprefix("data:").strip()
        if data == "[DONE]":
            return
        if data:
            chunk = json.loads(data)
            if "error" in chunk:
                raise BenchmarkError(f"{response.url} broke off: {chunk['error']}")
            yield chunk
