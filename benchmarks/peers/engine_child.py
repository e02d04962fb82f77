"""Our engine in a process of its own: `python -m benchmarks.peers.engine_child CHECKPOINT THREADS ROWS`."""

import argparse
import threading
import time
from pathlib import Path

from diffusion_worker.config import EngineConfig, EngineKind
from diffusion_worker.engine import Engine, load_engine
from diffusion_worker.wire import BlockEvent, DraftEvent, ErrorEvent, FinishEvent, GenerateRequest

from benchmarks.peers.lines import Lines, answer_lines
from benchmarks.peers.work import Done, SameWork


class EngineChild:
    """The engine without Triton and gateway."""

    def __init__(self, engine: Engine) -> None:
        self._engine = engine

    def same_work(self, work: SameWork) -> Done:
        """Submit as many as shall run at once; each that ends makes room for the next."""
        room = threading.Semaphore(work.concurrency)
        answers: list[FinishEvent | ErrorEvent] = []

        def emit(event: BlockEvent | DraftEvent | FinishEvent | ErrorEvent) -> None:
            if isinstance(event, FinishEvent | ErrorEvent):
                answers.append(event)
                room.release()

        started = time.monotonic()
        for number, prompt in enumerate(work.prompts):
            room.acquire()
            self._engine.submit(GenerateRequest(request_id=str(number), prompt=prompt, max_tokens=work.tokens), emit)
        for _ in range(work.concurrency):
            room.acquire()
        seconds = time.monotonic() - started
        return Done(tokens=sum(_tokens(answer) for answer in answers), seconds=seconds)


def _tokens(answer: FinishEvent | ErrorEvent) -> int:
    if isinstance(answer, ErrorEvent):
        raise RuntimeError(  # noqa: TRY004 - not a wrong type: the engine failed
            f"the engine answered {answer.code}: {answer.message}"
        )
    return answer.completion_tokens


def main() -> None:
    """Load the engine, then work for whoever holds the other end of the pipe."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("checkpoint", type=Path)
    parser.add_argument("threads", type=int)
    parser.add_argument("rows", type=int)
    options = parser.parse_args()
    lines = Lines()
    engine = load_engine(
        EngineConfig(
            kind=EngineKind.DIFFUSION,
            model="peers",
            revision="local",
            source=f"file://{options.checkpoint}",
            path=str(options.checkpoint),
            threads=options.threads,
            max_batch_size=options.rows,
            batch_window_seconds=0,  # the others do not wait for company either
        )
    )
    child = EngineChild(engine)
    answer_lines(lines, {"same_work": lambda work: child.same_work(SameWork.model_validate(work))})
    engine.close(drain=False)


if __name__ == "__main__":
    main()
