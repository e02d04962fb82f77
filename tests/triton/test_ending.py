"""How a worker ends, wanted and not."""

import asyncio
import os
import signal
import time
from collections.abc import Callable

from diffusion_gateway.triton import TritonServer
from diffusion_worker.triton.launcher import EXIT_USELESS
from diffusion_worker.wire import BlockEvent, FinishEvent, GenerateRequest

from tests.triton.worker import QUEUE, Call, Worker, long_request, request

StartWorker = Callable[..., Worker]


async def test_sigterm_lets_a_running_stream_finish(start_worker: StartWorker) -> None:
    worker = start_worker(exit_timeout=300)
    call = Call(worker, request(max_tokens=160))
    await call.next()
    worker.process.send_signal(signal.SIGTERM)
    assert isinstance((await call.answer())[-1], FinishEvent)
    assert await asyncio.to_thread(worker.wait_for_exit, 300) == 0


async def test_what_a_gateway_leaves_behind_keeps_no_worker_from_ending(start_worker: StartWorker) -> None:
    """Triton waits for streams that it believes to be open until its time is over."""
    worker = start_worker(exit_timeout=300)
    server = TritonServer(worker.grpc)

    async def ask(number: int) -> None:
        asked = request(request_id=f"r{number}", max_tokens=8 if number % 4 else 160)
        stream = server.open(GenerateRequest(**asked), revision=None, traceparent=None, clock=time.monotonic)
        event = await stream.next(timeout_seconds=300)
        while number % 4 and isinstance(event, BlockEvent):
            event = await stream.next(timeout_seconds=300)
        stream.close()  # every fourth in the middle, the others at their last event
        await asyncio.gather(stream.task, return_exceptions=True)

    # As many at a time as the queue holds: the row of the one that was left may still be taken when the next ones come.
    for first in range(0, 10 * QUEUE, QUEUE):
        await asyncio.gather(*(ask(first + number) for number in range(QUEUE)))
    await server.close()
    worker.process.send_signal(signal.SIGTERM)
    assert await asyncio.to_thread(worker.wait_for_exit, 300) == 0


async def test_a_killed_stub_ends_the_worker(start_worker: StartWorker) -> None:
    worker = start_worker()
    call = Call(worker, long_request())
    await call.next()
    os.kill(worker.stub().pid, signal.SIGKILL)
    assert await asyncio.to_thread(worker.wait_for_exit, 120) == EXIT_USELESS
    assert "python stub has died" in worker.log.read_text()
    await call.cancel()


async def test_an_engine_that_hangs_ends_the_worker(start_worker: StartWorker) -> None:
    worker = start_worker(hang_timeout=4)
    os.kill(worker.stub().pid, signal.SIGSTOP)
    assert await asyncio.to_thread(worker.wait_for_exit, 120) == EXIT_USELESS
    assert "the engine has not ticked" in worker.log.read_text()
