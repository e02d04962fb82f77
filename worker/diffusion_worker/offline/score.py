"""A file of prompts and completions in, a file of their likelihoods under an autoregressive model out."""

import math
from dataclasses import dataclass
from pathlib import Path

from pydantic import ValidationError

from diffusion_worker.config import EngineConfig, EngineKind
from diffusion_worker.engine import Engine
from diffusion_worker.offline.errors import OfflineError, explained
from diffusion_worker.offline.jsonl import JsonObject, Line, Results, read_lines
from diffusion_worker.offline.progress import Progress
from diffusion_worker.offline.run import Emit, Event, do_all, failure, is_final
from diffusion_worker.wire import ErrorEvent, ScoreEvent, ScoreRequest

_AHEAD = 4


@dataclass
class Total:
    """All texts together."""

    nll: float = 0.0  # nats
    tokens: int = 0
    text_bytes: int = 0

    def __str__(self) -> str:
        if not self.tokens:
            return "nothing was scored"
        bits = self.nll / math.log(2) / max(1, self.text_bytes)
        return f"perplexity {math.exp(self.nll / self.tokens):.4f} over {self.tokens} tokens, {bits:.4f} bits per byte"


def score_file(source: Path, target: Path, *, config: EngineConfig) -> tuple[Progress, Total]:
    """Score every line of `source`. What `target` has already is not done again, and counts in the total.

    Raises OfflineError before the checkpoint is loaded when a line is wrong.
    """
    if config.kind is not EngineKind.AR:
        raise OfflineError("a diffusion model has no likelihood of a text; name an autoregressive one")
    lines = read_lines(source)
    total = Total()
    jobs = [_Score(line, source=source, total=total) for line in lines]

    def is_done(result: JsonObject) -> bool:
        if "nll" in result:
            _add(total, result)
        return is_final(result)

    with Results(target, known={line.id for line in lines}, outcome="nll", is_final=is_done) as results:
        return do_all(jobs, config=config, ahead=_AHEAD, results=results), total


class _Score:
    """One text."""

    def __init__(self, line: Line, *, source: Path, total: Total) -> None:
        self.id = line.id
        self._total = total
        try:
            self._request = ScoreRequest.model_validate(line.fields | {"request_id": line.id})
        except ValidationError as error:
            raise OfflineError(f"{source}, id {line.id}: {explained(error)}") from error

    def submit(self, engine: Engine, emit: Emit) -> None:
        """As a request for a score."""
        engine.submit_score(self._request, emit)

    def take(self, event: Event) -> JsonObject | None:
        """The one event that there is."""
        match event:
            case ScoreEvent():
                result = event.model_dump(exclude={"type"}) | {"perplexity": math.exp(event.nll / event.tokens)}
                _add(self._total, result)
                return result
            case ErrorEvent():
                return failure(event)
        raise OfflineError(f"the engine sent a {event.type} event for a score")


def _add(total: Total, result: JsonObject) -> None:
    total.nll += result["nll"]
    total.tokens += result["tokens"]
    total.text_bytes += result["text_bytes"]
