"""`python idle_clients.py HOST PORT N`: open N connections, say how many, and hold them until standard input ends.

A program of its own because it runs in the cluster's network namespace, and may open more files than its parent.
"""

import asyncio
import resource
import sys

_AT_ONCE = 200


async def main(host: str, port: int, wanted: int) -> None:
    resource.setrlimit(
        resource.RLIMIT_NOFILE, (wanted + 1000, max(wanted + 1000, resource.getrlimit(resource.RLIMIT_NOFILE)[1]))
    )
    turns = asyncio.Semaphore(_AT_ONCE)

    async def connect() -> asyncio.StreamWriter:
        async with turns:
            for _ in range(20):  # the listener's backlog may be full for a moment
                try:
                    async with asyncio.timeout(10):
                        return (await asyncio.open_connection(host, port))[1]
                except OSError:  # a timeout is one
                    await asyncio.sleep(0.5)
        raise ConnectionError("nobody takes the connection")

    held = await asyncio.gather(*(connect() for _ in range(wanted)))
    sys.stdout.write(f"{len(held)}\n")
    sys.stdout.flush()
    await asyncio.to_thread(sys.stdin.read)
    for writer in held:
        writer.transport.abort()


if __name__ == "__main__":
    asyncio.run(main(sys.argv[1], int(sys.argv[2]), int(sys.argv[3])))
