"""Event loops of all tests."""

import asyncio

# pytest-asyncio takes the main thread's event loop and puts it back later. Without this line Python 3.11 makes one for it, nobody
# closes that, and its ResourceWarning fails whichever test runs when it is collected.
asyncio.set_event_loop(None)
