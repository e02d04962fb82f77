from collections.abc import AsyncIterator

import pytest

from tests.gateway.stack import Stack, started


@pytest.fixture
async def stack() -> AsyncIterator[Stack]:
    """A gateway without models."""
    async with started() as stack:
        yield stack
