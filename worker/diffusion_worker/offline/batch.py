"""A file of prompts in, a file of answers out."""

import hashlib
from pathlib import Path
from typing import Any

from pydantic import ValidationError

from diffusion_worker.config import EngineConfig
from diffusion_worker.engine import Engine
from diffusion_worker.offline.errors import OfflineError, explained
from diffusion_worker.offline.jsonl import JsonObject, Line, Results, read_lines
from diffusion_worker.offline.progress import Progress
from diffusion_worker.offline.run import Emit, Event, do_all, failure, is_final
from diffusion_worker.wire import BlockEvent, ErrorEvent, FinishEvent, GenerateRequest, TokenLikelihood

_AHEAD = 2


def answer_file(source: Path, target: Path, *, config: EngineConfig, defaults: dict[str, Any]) -> Progress:
    """Answer every line of `source`; `defaults` are fields of requests that a line does not set.

    What `target` has already is not done again. Raises OfflineError before the checkpoint is loaded when a line is wrong.
    """
    lines = read_lines(source)
    jobs = [_Answer(line, source=source, defaults=defaults) for line in lines]
    with Results(target, known={line.id for line in lines}, outcome="text", is_final=is_final) as results:
        return do_all(jobs, config=config, ahead=_AHEAD, results=results)


class _Answer:
    """One prompt."""

    def __init__(self, line: Line, *, source: Path, defaults: dict[str, Any]) -> None:
        self.id = line.id
        fields = defaults | line.fields
        if "sampler" in defaults and isinstance(line.fields.get("sampler"), dict):
            fields["sampler"] = defaults["sampler"] | line.fields["sampler"]
        if "seed" in defaults and "seed" not in line.fields:
            fields["seed"] = _seed_of_line(defaults["seed"], line.id)
        fields |= {"request_id": line.id, "background": False, "drafts": False}  # nobody else is here, and nobody looks
        try:
            self._request = GenerateRequest.model_validate(fields)
        except ValidationError as error:
            raise OfflineError(f"{source}, id {line.id}: {explained(error)}") from error
        self._text: list[str] = []
        self._logprobs: list[TokenLikelihood] = []

    def submit(self, engine: Engine, emit: Emit) -> None:
        """As a request."""
        engine.submit(self._request, emit)

    def take(self, event: Event) -> JsonObject | None:
        """Collect the text until the end."""
        match event:
            case BlockEvent():
                self._text.append(event.text)
                self._logprobs += event.logprobs or ()
                return None
            case FinishEvent():
                result: JsonObject = {"text": "".join(self._text), "finish_reason": event.reason}
                result |= event.model_dump(include={"prompt_tokens", "completion_tokens", "steps", "blocks", "seed"})
                if self._request.logprobs is not None:
                    result["logprobs"] = [token.model_dump() for token in self._logprobs]
                return result
            case ErrorEvent():
                return failure(event)
        raise OfflineError(f"the engine sent a {event.type} event for an answer")


def _seed_of_line(seed: int, name: str) -> int:
    """So that the answers of a run differ, and are the same when it is run again or goes on."""
    return int.from_bytes(hashlib.sha256(f"{seed}/{name}".encode()).digest()[:6])
