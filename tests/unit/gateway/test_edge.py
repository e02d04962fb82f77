"""Work for a client, and the client that leaves."""

import asyncio
from typing import Any

import pytest
from diffusion_gateway.edge import ClientGoneError, unless_client_leaves


class Client:
    """Stays until it is told to leave."""

    def __init__(self) -> None:
        self.left = asyncio.Event()

    async def receive(self) -> dict[str, Any]:
        await self.left.wait()
        return {"type": "http.disconnect"}


class Work:
    """Goes on until it is cancelled."""

    def __init__(self) -> None:
        self.started = asyncio.Event()
        self.cancelled = False

    async def run(self) -> None:
        self.started.set()
        try:
            await asyncio.Event().wait()
        except asyncio.CancelledError:
            self.cancelled = True
            raise


async def done() -> str:
    await asyncio.sleep(0)
    return "an answer"


async def test_work_that_ends_gives_its_result() -> None:
    assert await unless_client_leaves(Client().receive, done()) == "an answer"


async def test_an_error_of_the_work_is_raised() -> None:
    async def fail() -> None:
        raise ValueError("no")

    with pytest.raises(ValueError, match="no"):
        await unless_client_leaves(Client().receive, fail())


async def test_work_is_cancelled_when_the_client_leaves() -> None:
    client, work = Client(), Work()
    waiting = asyncio.create_task(unless_client_leaves(client.receive, work.run()))
    await work.started.wait()
    client.left.set()
    with pytest.raises(ClientGoneError):
        await waiting
    assert work.cancelled


async def test_who_waits_can_go_on_after_the_client_has_left() -> None:
    client = Client()
    client.left.set()

    async def goes_on() -> bool:
        with pytest.raises(ClientGoneError):
            await unless_client_leaves(client.receive, Work().run())
        async with asyncio.timeout(60):
            await asyncio.sleep(0)
        task = asyncio.current_task()
        return task is not None and task.cancelling() == 0

    assert await asyncio.create_task(goes_on())


async def test_a_deadline_around_it_is_not_taken_for_a_client_that_leaves() -> None:
    work = Work()
    with pytest.raises(TimeoutError):
        async with asyncio.timeout(0.01):
            await unless_client_leaves(Client().receive, work.run())
    assert work.cancelled


async def test_whoever_cancels_it_is_not_taken_for_a_client_that_leaves() -> None:
    client, work = Client(), Work()
    waiting = asyncio.create_task(unless_client_leaves(client.receive, work.run()))
    await work.started.wait()
    waiting.cancel()
    client.left.set()
    with pytest.raises(asyncio.CancelledError):
        await waiting
    assert work.cancelled


async def test_nobody_watches_the_client_afterwards() -> None:
    before = asyncio.all_tasks()
    await unless_client_leaves(Client().receive, done())
    await asyncio.sleep(0)
    assert asyncio.all_tasks() == before
