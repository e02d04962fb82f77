"""Asks an engine in this process and notes what it did."""

import threading
import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

from diffusion_worker.config import EngineConfig, EngineKind, SamplerConfig
from diffusion_worker.engine import Engine, NullObserver, Pass, PassKind, load_engine
from diffusion_worker.wire import BlockEvent, DraftEvent, ErrorEvent, FinishEvent, GenerateRequest

from benchmarks.errors import BenchmarkError

_PATIENCE_SECONDS = 600.0


class Recorder(NullObserver):
    """Keeps the passes."""

    def __init__(self) -> None:
        self.passes: list[Pass] = []

    def pass_done(self, done: Pass) -> None:
        """Keep it."""
        self.passes.append(done)

    def seconds(self, kind: PassKind) -> list[float]:
        """Of all passes of a kind."""
        return [done.seconds for done in self.passes if done.kind is kind]


@dataclass(frozen=True)
class Answered:
    """One request; seconds count from the moment it was submitted."""

    text: str
    tokens: int
    steps: int
    blocks: int
    ended: bool  # by itself, not by its limit
    first_block_seconds: float
    total_seconds: float


@dataclass
class _Pending:
    submitted: float
    first: float | None = None
    texts: list[str] = field(default_factory=list)
    end: FinishEvent | ErrorEvent | None = None
    ended: float = 0.0
    done: threading.Event = field(default_factory=threading.Event)

    def emit(self, event: BlockEvent | DraftEvent | FinishEvent | ErrorEvent) -> None:
        now = time.monotonic()
        if isinstance(event, BlockEvent):
            self.texts.append(event.text)
            self.first = self.first or now
        elif isinstance(event, FinishEvent | ErrorEvent):
            self.end, self.ended = event, now
            self.done.set()


def open_engine(
    checkpoint: Path,
    *,
    rows: int,
    kind: EngineKind = EngineKind.DIFFUSION,
    window_seconds: float = 0.1,
    sampler: SamplerConfig | None = None,
    recorder: Recorder | None = None,
) -> Engine:
    """An engine for at most `rows` rows on one thread.

    With the default window, `rows` requests that are submitted together start together: the window ends when all rows are there.
    """
    config = EngineConfig(
        kind=kind,
        model=checkpoint.name,
        revision="local",
        source=f"file://{checkpoint}",
        path=str(checkpoint),
        max_batch_size=rows,
        batch_window_seconds=window_seconds,
        sampler=sampler or SamplerConfig(),
    )
    return load_engine(config, observer=recorder)


def answer(engine: Engine, requests: Sequence[GenerateRequest], *, at: Sequence[float] | None = None) -> list[Answered]:
    """Submit the requests, all now or at their seconds from now, and wait for the answers."""
    started = time.monotonic()
    pending = []
    for number, request in enumerate(requests):
        if at is not None:
            time.sleep(max(0.0, started + at[number] - time.monotonic()))
        each = _Pending(submitted=time.monotonic())
        pending.append(each)
        engine.submit(request, each.emit)
    return [_answered(each) for each in pending]


def _answered(pending: _Pending) -> Answered:
    if not pending.done.wait(_PATIENCE_SECONDS):
        raise BenchmarkError(f"the engine gave no answer within {_PATIENCE_SECONDS:.0f} s")
    end = pending.end
    if not isinstance(end, FinishEvent):
        raise BenchmarkError(f"the engine answered {end}")
    return Answered(
        text="".join(pending.texts),
        tokens=end.completion_tokens,
        steps=end.steps,
        blocks=end.blocks,
        ended=end.reason == "stop",
        first_block_seconds=(pending.first or pending.ended) - pending.submitted,
        total_seconds=pending.ended - pending.submitted,
    )
