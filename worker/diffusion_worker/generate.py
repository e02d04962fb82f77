"""One prompt, answered in the terminal: the engine alone, for a first look at a checkpoint."""

import queue
import sys
from pathlib import Path

from pydantic import ValidationError

from diffusion_worker.config import EngineConfig, EngineKind
from diffusion_worker.engine import Engine, load_engine
from diffusion_worker.models.errors import CheckpointError
from diffusion_worker.wire import BlockEvent, ErrorEvent, FinishEvent, GenerateRequest, Message

_ALIVE_SECONDS = 1.0


class GenerateError(Exception):
    """The answer could not be made. The message is for the person at the terminal."""


def generate(
    *,
    checkpoint: Path,
    kind: str,
    prompt: str,
    chat: bool,
    max_tokens: int | None,
    temperature: float,
    seed: int | None,
    device: str,
    threads: int,
) -> None:
    """Print the answer to standard output as it comes, and what it took to standard error. Raises GenerateError."""
    try:
        request = GenerateRequest(
            request_id="terminal",
            prompt=None if chat else prompt,
            messages=[Message(role="user", content=prompt)] if chat else None,
            max_tokens=max_tokens,
            temperature=temperature,
            seed=seed,
        )
        config = EngineConfig(
            kind=EngineKind(kind),
            model=checkpoint.name,
            revision="local",
            source=f"file://{checkpoint.absolute()}",
            path=str(checkpoint),
            device=device,
            threads=threads,
            max_batch_size=1,
            batch_window_seconds=0,
        )
        engine = load_engine(config)
    except ValidationError as error:
        fault = error.errors()[0]
        raise GenerateError(f"{'.'.join(map(str, fault['loc']))}: {fault['msg']} (got {fault['input']!r})") from error
    except CheckpointError as error:
        raise GenerateError(str(error)) from error
    events: queue.SimpleQueue[BlockEvent | FinishEvent | ErrorEvent] = queue.SimpleQueue()
    handle = engine.submit(request, events.put)
    try:
        _print_answer(events, engine)
    finally:
        handle.cancel()  # after Ctrl-C
        engine.close()


def _print_answer(events: "queue.SimpleQueue[BlockEvent | FinishEvent | ErrorEvent]", engine: Engine) -> None:
    while True:
        try:
            event = events.get(timeout=_ALIVE_SECONDS)
        except queue.Empty:
            if engine.alive:
                continue
            raise GenerateError("the engine has stopped; see its error above") from None
        match event:
            case BlockEvent(text=text):
                sys.stdout.write(text)
                sys.stdout.flush()
            case ErrorEvent(message=message):
                raise GenerateError(message)
            case FinishEvent() as finish:
                sys.stdout.write("\n")
                sys.stderr.write(
                    f"[{finish.reason}: {finish.completion_tokens} tokens in {finish.blocks} blocks and "
                    f"{finish.steps} passes, seed {finish.seed}]\n"
                )
                return
