"""One prompt, answered in the terminal: the engine alone, for a first look at a checkpoint."""

import queue
import sys
from typing import Any

from diffusion_worker.config import EngineConfig
from diffusion_worker.engine import Engine
from diffusion_worker.offline.errors import OfflineError
from diffusion_worker.offline.run import start
from diffusion_worker.wire import BlockEvent, DraftEvent, ErrorEvent, FinishEvent, GenerateRequest, Message

_ALIVE_SECONDS = 1.0


def generate(prompt: str, *, chat: bool, config: EngineConfig, fields: dict[str, Any]) -> None:
    """Print the answer to standard output as it comes, and what it took to standard error. Raises OfflineError.

    `fields` are the other fields of the request, and valid.
    """
    request = GenerateRequest.model_validate(
        {"request_id": "terminal", **fields}
        | ({"messages": [Message(role="user", content=prompt)]} if chat else {"prompt": prompt})
    )
    engine = start(config)
    events: queue.SimpleQueue[BlockEvent | DraftEvent | FinishEvent | ErrorEvent] = queue.SimpleQueue()
    handle = engine.submit(request, events.put)
    try:
        _print_answer(events, engine)
    finally:
        handle.cancel()  # after Ctrl-C
        engine.close()


def _print_answer(
    events: "queue.SimpleQueue[BlockEvent | DraftEvent | FinishEvent | ErrorEvent]", engine: Engine
) -> None:
    while True:
        try:
            event = events.get(timeout=_ALIVE_SECONDS)
        except queue.Empty:
            if engine.alive:
                continue
            raise OfflineError("the engine has stopped; see its error above") from None
        match event:
            case BlockEvent(text=text):
                sys.stdout.write(text)
                sys.stdout.flush()
            case ErrorEvent(message=message):
                raise OfflineError(message)
            case FinishEvent() as finish:
                sys.stdout.write("\n")
                sys.stderr.write(
                    f"[{finish.reason}: {finish.completion_tokens} tokens in {finish.blocks} blocks and "
                    f"{finish.steps} passes, seed {finish.seed}]\n"
                )
                return
