"""Event loops of these tests."""

import asyncio

# pytest-asyncio takes the main thread's event loop and puts it back later; without one it makes one that nobody closes,
# and whose ResourceWarning fails whichever test runs when it is collected.
asyncio.set_event_loop(None)
