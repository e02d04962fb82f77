"""How the stub answers, whichever protocol it is asked in."""

import asyncio
from collections.abc import AsyncIterator

MODEL = "story"
SCORED_MODEL = "story-scored"  # of its diffusion answers, so many in a hundred are compared with AR
SCORED_PERCENT = 5
BOUND_MODEL, BOUND_SCORED_MODEL = "story-bound", "story-bound-scored"  # the same, on a pod with so many rows
BOUND_ROWS = 4
TEXT = "once upon a time there was a small fox who lived by the river. "
BLOCKS = 8
FIRST_SECONDS = 0.010  # to the first block
NEXT_SECONDS = 0.005  # from one block to the next
TOKENS = 16  # per block


async def blocks() -> AsyncIterator[str]:
    """The texts of an answer, each at its time."""
    loop = asyncio.get_running_loop()
    due = loop.time() + FIRST_SECONDS
    for _ in range(BLOCKS):
        await asyncio.sleep(max(0.0, due - loop.time()))
        yield TEXT
        due += NEXT_SECONDS
