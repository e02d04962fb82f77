"""Streams chat completions and notes when the first text and the end came."""

import asyncio
import json
import time

import aiohttp
from pydantic import BaseModel, ConfigDict

from benchmarks.errors import BenchmarkError
from benchmarks.gateway import pace
from benchmarks.measure import percentile

_BODY = {
    "messages": [{"role": "user", "content": "Tell me a story about a fox and a river, please. " * 4}],
    "max_tokens": pace.BLOCKS * pace.TOKENS,
    "stream": True,
}
_HEADERS = {"authorization": "Bearer sk-benchmark"}
_TEXT = pace.TEXT * pace.BLOCKS


class Streamed(BaseModel):
    """What the requests of one run got. Seconds count from when a request was due."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    requests: int
    seconds: float
    first_text_p50: float
    first_text_p99: float
    proxy_cpu_seconds: float = 0.0

    def __str__(self) -> str:
        return f"{self.requests / self.seconds:.0f} requests/s, first text p50 {1000 * self.first_text_p50:.2f} ms"


def at_rate(url: str, model: str, *, requests: int, rate: float) -> Streamed:
    """One request each 1/`rate` seconds, whatever has become of those before it. BenchmarkError when one fails."""
    return asyncio.run(_run(url, model, requests=requests, rate=rate, concurrency=None))


def closed_loop(url: str, model: str, *, requests: int, concurrency: int) -> Streamed:
    """`concurrency` requests at a time, as fast as they are answered."""
    return asyncio.run(_run(url, model, requests=requests, rate=None, concurrency=concurrency))


async def _run(url: str, model: str, *, requests: int, rate: float | None, concurrency: int | None) -> Streamed:
    room = asyncio.Semaphore(concurrency or requests)
    connector = aiohttp.TCPConnector(limit=0)
    async with aiohttp.ClientSession(connector=connector, timeout=aiohttp.ClientTimeout(total=60)) as session:
        started = time.perf_counter()

        async def one(number: int) -> float:
            due = started + number / rate if rate else None
            if due is not None:
                await asyncio.sleep(max(0.0, due - time.perf_counter()))
            async with room:
                return await _first_text(session, url, model, since=due or time.perf_counter())

        try:
            firsts = await asyncio.gather(*(one(number) for number in range(requests)))
        except (aiohttp.ClientError, TimeoutError) as error:
            raise BenchmarkError(f"no answer from {url}: {error!r}; see the logs in .bench/logs") from error
        seconds = time.perf_counter() - started
    return Streamed(
        requests=requests,
        seconds=seconds,
        first_text_p50=percentile(firsts, 50),
        first_text_p99=percentile(firsts, 99),
    )


async def _first_text(session: aiohttp.ClientSession, url: str, model: str, *, since: float) -> float:
    first, text = None, []
    async with session.post(f"{url}/v1/chat/completions", json={**_BODY, "model": model}, headers=_HEADERS) as response:
        if response.status != 200:
            raise BenchmarkError(f"{url} answered {response.status}: {(await response.text())[:500]}")
        async for line in response.content:
            if not line.startswith(b"data: {"):
                continue
            for choice in json.loads(line[6:])["choices"]:
                if content := choice["delta"].get("content"):
                    first = first or time.perf_counter() - since
                    text.append(content)
    if first is None or "".join(text) != _TEXT:
        raise BenchmarkError(f"{url} lost a part of the answer: {''.join(text)[:80]!r}...")
    return first
