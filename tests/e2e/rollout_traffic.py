"""Clients that ask for stories all the time, from a thread of their own, while a test watches the rollout."""

import asyncio
import itertools
import threading
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from http import HTTPStatus
from typing import Self

import httpx2
from diffusion_gateway.sticky import place

MAX_TOKENS = 64
"""One canvas of the storyteller: long enough for a pair (16 tokens) and for a check for repetition (32)."""
# A bound for a fast machine; on a slow one clients wait for their answers.
_PAUSE_SECONDS = 0.1
_PAUSE_AFTER_FAILURE_SECONDS = 1.0
_TIMEOUT_SECONDS = 180.0
_KINDS = ("fox", "walrus", "camel", "sailor", "king", "thief", "painter", "owl")
_THINGS = ("a storm", "a lighthouse", "a music box", "a golden crown", "a lost letter", "a cloud castle")


@dataclass(frozen=True)
class Client:
    """Somebody who asks the same model again and again. A `workload` of code has AR answer, whatever the weights are."""

    model: str
    user: str
    workload: str = "general"


@dataclass(frozen=True)
class Told:
    """How a request ended. `revision` answered it; empty when nobody did."""

    client: Client
    code: int
    revision: str


class Traffic:
    """All clients, as a context manager. They can be exchanged at any time."""

    def __init__(self, url: str) -> None:
        self._url = url
        self._told: list[Told] = []
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, name="traffic")
        self._tasks: list[asyncio.Task[None]] = []
        self._http: httpx2.AsyncClient | None = None

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *error: object) -> None:
        try:
            self.be(())
            asyncio.run_coroutine_threadsafe(self._close(), self._loop).result(30)
        finally:
            self._loop.call_soon_threadsafe(self._loop.stop)
            self._thread.join(30)
            self._loop.close()

    def be(self, clients: Sequence[Client]) -> None:
        """From now on these clients ask, and nobody else. What the others had asked for is given up."""
        asyncio.run_coroutine_threadsafe(self._be(clients), self._loop).result(30)

    def told(self) -> list[Told]:
        """How all requests ended, in that order."""
        return list(self._told)

    async def _be(self, clients: Sequence[Client]) -> None:
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        # The API's service may have got other pods since: nobody keeps to an old connection.
        await self._close()
        self._http = httpx2.AsyncClient(base_url=self._url, timeout=_TIMEOUT_SECONDS, trust_env=False)
        self._tasks = [asyncio.create_task(self._ask_on(client, start)) for start, client in enumerate(clients)]

    async def _close(self) -> None:
        if self._http:
            await self._http.aclose()

    async def _ask_on(self, client: Client, start: int) -> None:
        stories = [f"Tell me a story about a {kind} and {thing}." for kind in _KINDS for thing in _THINGS]
        for story in itertools.islice(itertools.cycle(stories), start * 7, None):
            told = await self._ask(client, story)
            self._told.append(told)
            await asyncio.sleep(_PAUSE_SECONDS if told.code == HTTPStatus.OK else _PAUSE_AFTER_FAILURE_SECONDS)

    async def _ask(self, client: Client, story: str) -> Told:
        assert self._http is not None
        body = {
            "model": client.model,
            "messages": [{"role": "user", "content": story}],
            "max_tokens": MAX_TOKENS,
            "user": client.user,
            "workload": client.workload,
        }
        try:
            answer = await self._http.post("/v1/chat/completions", json=body)
        except httpx2.HTTPError:
            return Told(client, 0, "")
        return Told(client, answer.status_code, answer.headers.get("x-diffusion-revision", ""))


def users_of(model: str, *, low: float, high: float) -> Iterator[str]:
    """Users whose place in a model that is `sticky: user` is from `low` to below `high`: the canary's begin at 0."""
    for number in itertools.count():
        user = f"user-{number}"
        if low <= place(model, user) < high:
            yield user
