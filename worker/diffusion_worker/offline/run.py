"""Keeps an engine full until all work is done."""

import queue
from collections.abc import Callable, Iterable, Sequence
from itertools import islice
from typing import Generic, Protocol, TypeVar

from diffusion_worker.config import EngineConfig
from diffusion_worker.engine import Engine, load_engine
from diffusion_worker.models.errors import CheckpointError
from diffusion_worker.offline.errors import OfflineError
from diffusion_worker.offline.jsonl import JsonObject, Results
from diffusion_worker.offline.progress import Progress
from diffusion_worker.samplers.errors import SamplerError
from diffusion_worker.wire import BlockEvent, DraftEvent, ErrorEvent, FinishEvent, ScoreEvent

Event = BlockEvent | DraftEvent | FinishEvent | ScoreEvent | ErrorEvent
Emit = Callable[[Event], None]
_ALIVE_SECONDS = 1.0


class Job(Protocol):
    """One piece of work and what it has got so far."""

    @property
    def id(self) -> str:
        """Of its line."""

    def submit(self, engine: Engine, emit: Emit) -> None:
        """Hand it to the engine."""

    def take(self, event: Event) -> JsonObject | None:
        """An event came; its result, if that was the last one."""


J = TypeVar("J", bound=Job)


class _Running(Generic[J]):
    def __init__(self) -> None:
        self.events: queue.SimpleQueue[tuple[J, Event]] = queue.SimpleQueue()
        self.unfinished = 0

    def submit(self, job: J, engine: Engine) -> None:
        self.unfinished += 1
        job.submit(engine, lambda event: self.events.put((job, event)))

    def next(self, engine: Engine) -> tuple[J, Event]:
        while True:
            try:
                return self.events.get(timeout=_ALIVE_SECONDS)
            except queue.Empty:
                if not engine.alive:
                    raise OfflineError("the engine has stopped; see its error above") from None


def start(config: EngineConfig) -> Engine:
    """The engine of a configuration, which the caller closes; OfflineError when it cannot be served."""
    try:
        return load_engine(config)
    except (CheckpointError, SamplerError) as error:
        raise OfflineError(str(error)) from error


def do_all(jobs: Sequence[J], *, config: EngineConfig, ahead: int, results: Results) -> Progress:
    """Do all jobs that have no result yet, and write each result as it comes. Raises OfflineError.

    `ahead` jobs per row of the engine are submitted, so that a free row never waits for this thread.
    """
    progress = Progress(total=len(jobs), done_before=len(results.done))
    left = [job for job in jobs if job.id not in results.done]
    if left:
        engine = start(config)
        try:
            _run(left, engine=engine, in_flight=ahead * engine.max_batch_size, results=results, progress=progress)
        finally:
            engine.close(drain=False)
    progress.finish()
    return progress


def _run(jobs: Iterable[J], *, engine: Engine, in_flight: int, results: Results, progress: Progress) -> None:
    """Keep `in_flight` jobs in the engine."""
    running: _Running[J] = _Running()
    waiting = iter(jobs)
    for job in islice(waiting, in_flight):
        running.submit(job, engine)
    while running.unfinished:
        job, event = running.next(engine)
        result = job.take(event)
        if result is None:
            continue
        running.unfinished -= 1
        results.write({"id": job.id} | result)
        progress.count(tokens=result.get("completion_tokens") or result.get("tokens") or 0, failed="error" in result)
        if (following := next(waiting, None)) is not None:
            running.submit(following, engine)


def failure(event: ErrorEvent) -> JsonObject:
    """The result of work that failed."""
    return {"error": event.model_dump(include={"code", "message", "param"}, exclude_none=True)}


def is_final(result: JsonObject) -> bool:
    """Whether trying again is of no use: it was answered, or the work itself is at fault."""
    error = result.get("error", {})
    code = error.get("code") if isinstance(error, dict) else None
    return "error" not in result or code in ("invalid_request", "context_length_exceeded")
