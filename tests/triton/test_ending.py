"""How a worker ends, wanted and not."""

import asyncio
import os
import signal
from collections.abc import Callable

from diffusion_worker.triton.launcher import EXIT_USELESS
from diffusion_worker.wire import FinishEvent

from tests.triton.worker import Call, Worker, long_request, request

StartWorker = Callable[..., Worker]


async def test_sigterm_lets_a_running_stream_finish(start_worker: StartWorker) -> None:
    worker = start_worker(exit_timeout=300)
    call = Call(worker, request(max_tokens=160))
    await call.next()
    worker.process.send_signal(signal.SIGTERM)
    assert isinstance((await call.answer())[-1], FinishEvent)
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
