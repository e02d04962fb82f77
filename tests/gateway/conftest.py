import asyncio
from collections.abc import AsyncIterator, Callable, Mapping

import pytest
import uvloop

from tests.gateway.stack import Stack, started


def pytest_asyncio_loop_factories() -> Mapping[str, Callable[[], asyncio.AbstractEventLoop]]:
    """The loop that the gateway runs on in its pod."""
    return {"uvloop": uvloop.new_event_loop}


@pytest.fixture
async def stack() -> AsyncIterator[Stack]:
    """A gateway without models."""
    async with started() as stack:
        yield stack
