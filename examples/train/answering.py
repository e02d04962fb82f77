"""Requests to checkpoints through the worker's own engine: what is measured here is what serves."""

import threading
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from diffusion_worker.config import EngineConfig, EngineKind
from diffusion_worker.engine import Engine, load_engine
from diffusion_worker.wire import BlockEvent, ErrorEvent, FinishEvent, GenerateRequest, ScoreEvent, ScoreRequest

ROWS = 16
PATIENCE_SECONDS = 600.0
Event = BlockEvent | FinishEvent | ScoreEvent | ErrorEvent


class AnswerError(Exception):
    """The engine refused a request or did not finish it."""


@dataclass
class Answer:
    """What came back for one request, in order."""

    blocks: list[BlockEvent] = field(default_factory=list)
    end: FinishEvent | ScoreEvent | ErrorEvent | None = None

    @property
    def text(self) -> str:
        """The whole answer."""
        return "".join(block.text for block in self.blocks)

    @property
    def finish(self) -> FinishEvent:
        """The last event of an answer in text; AnswerError when there was none."""
        if isinstance(self.end, FinishEvent):
            return self.end
        raise AnswerError(f"the engine gave no answer: {self._reason}")

    @property
    def score(self) -> ScoreEvent:
        """The answer to a ScoreRequest; AnswerError when there was none."""
        if isinstance(self.end, ScoreEvent):
            return self.end
        raise AnswerError(f"the engine gave no score: {self._reason}")

    @property
    def _reason(self) -> str:
        return self.end.message if isinstance(self.end, ErrorEvent) else repr(self.end)


def open_engine(folder: Path, kind: EngineKind) -> Engine:
    """The checkpoint in `folder` on one CPU thread. Close it after use."""
    return load_engine(
        EngineConfig(
            kind=kind,
            model=folder.name,
            revision="local",
            source=f"file://{folder.absolute()}",
            path=str(folder),
            device="cpu",
            max_batch_size=ROWS,
            batch_window_seconds=0,
        )
    )


def ask(engine: Engine, requests: Sequence[GenerateRequest | ScoreRequest]) -> list[Answer]:
    """Answers in the order of the requests; twice as many are under way as the engine has rows."""
    answers = [Answer() for _ in requests]
    ended = [threading.Event() for _ in requests]
    room = threading.Semaphore(2 * ROWS)

    def take(i: int) -> Callable[[Event], None]:
        def emit(event: Event) -> None:
            if isinstance(event, BlockEvent):
                answers[i].blocks.append(event)
                return
            answers[i].end = event
            ended[i].set()
            room.release()

        return emit

    for i, request in enumerate(requests):
        if not room.acquire(timeout=PATIENCE_SECONDS):
            raise AnswerError(f"no answer within {PATIENCE_SECONDS:.0f} s")
        if isinstance(request, ScoreRequest):
            engine.submit_score(request, take(i))
        else:
            engine.submit(request, take(i))
    if not all(event.wait(PATIENCE_SECONDS) for event in ended):
        raise AnswerError(f"no answer within {PATIENCE_SECONDS:.0f} s")
    return answers
