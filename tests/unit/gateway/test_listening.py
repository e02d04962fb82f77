"""The sockets that clients connect to."""

import asyncio
import socket

from diffusion_gateway.server import listen


async def test_a_block_goes_out_at_once_instead_of_waiting_for_the_client_to_acknowledge_the_one_before() -> None:
    accepted: asyncio.Queue[int] = asyncio.Queue()

    async def note(_: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        taken = writer.get_extra_info("socket")
        await accepted.put(taken.getsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY))
        writer.close()

    with listen("127.0.0.1", 0) as sock:
        server = await asyncio.start_server(note, sock=sock)
        async with server:
            _, writer = await asyncio.open_connection(*sock.getsockname())
            assert await asyncio.wait_for(accepted.get(), 5) == 1
            writer.close()
