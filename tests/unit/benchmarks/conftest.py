import asyncio

# pytest-asyncio asks for the current event loop before its first test. Without this line Python 3.11 makes one for it, nobody
# closes that, and its ResourceWarning fails whichever test runs when it is collected.
asyncio.set_event_loop(None)
