"""Sends requests to an engine and collects what comes back."""

import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

from diffusion_worker.engine import Engine, Handle
from diffusion_worker.engine.runner import Runner
from diffusion_worker.wire import BlockEvent, DraftEvent, ErrorEvent, FinishEvent, GenerateRequest

PATIENCE_SECONDS = 60.0  # until a test gives up; nothing here takes a second on an idle machine


@dataclass
class Answer:
    """Events of one request, in order."""

    events: list[BlockEvent | DraftEvent | FinishEvent | ErrorEvent] = field(default_factory=list)
    blocks: list[BlockEvent] = field(default_factory=list)
    ends: list[FinishEvent | ErrorEvent] = field(default_factory=list)
    ended: threading.Event = field(default_factory=threading.Event)

    def take(self, event: BlockEvent | DraftEvent | FinishEvent | ErrorEvent) -> None:
        """The request's `emit`."""
        self.events.append(event)
        if isinstance(event, DraftEvent):
            return
        if isinstance(event, BlockEvent):
            assert not self.ends, "an event came after the last one"
            self.blocks.append(event)
        else:
            self.ends.append(event)
            self.ended.set()

    @property
    def text(self) -> str:
        """The whole answer."""
        return "".join(block.text for block in self.blocks)

    @property
    def end(self) -> FinishEvent | ErrorEvent:
        """The last event; waits for it."""
        assert self.ended.wait(PATIENCE_SECONDS), "the request did not end"
        (end,) = self.ends
        return end

    @property
    def finish(self) -> FinishEvent:
        """The last event of an answer that has not failed."""
        assert isinstance(self.end, FinishEvent), self.end
        return self.end

    @property
    def error(self) -> ErrorEvent:
        """The last event of an answer that has failed."""
        assert isinstance(self.end, ErrorEvent), self.end
        return self.end


def request(prompt: str | Sequence[int] = "the fox", **fields: object) -> GenerateRequest:
    """A request with a seed and a short answer, unless told otherwise."""
    key = "prompt" if isinstance(prompt, str) else "prompt_token_ids"
    return GenerateRequest.model_validate({"request_id": "r", key: prompt, "max_tokens": 20, "seed": 1} | fields)


def send(engine: Engine, *requests: GenerateRequest) -> list[Answer]:
    """Submit requests; their answers fill while the engine works."""
    return [send_one(engine, each)[0] for each in requests]


def send_one(engine: Engine, each: GenerateRequest) -> tuple[Answer, Handle]:
    """Submit one request and keep its handle."""
    answer = Answer()
    return answer, engine.submit(each, answer.take)


@contextmanager
def running(runner: Runner, *, batch_window_seconds: float = 0.0, **settings: Any) -> Iterator[Engine]:
    """An engine that is closed at the end, whatever happens."""
    engine = Engine(runner, batch_window_seconds=batch_window_seconds, **settings)
    try:
        yield engine
    finally:
        engine.close(drain=False)
