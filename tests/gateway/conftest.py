import asyncio
from collections.abc import AsyncIterator

import pytest

from tests.gateway.stack import Stack, started

# pytest-asyncio asks for the current event loop before its first test. Without this line Python 3.11 makes one for it, nobody
# closes that, and its ResourceWarning fails whichever test runs when it is collected.
asyncio.set_event_loop(None)


@pytest.fixture
async def stack() -> AsyncIterator[Stack]:
    """A gateway without models."""
    async with started() as stack:
        yield stack
