"""One request in flight."""

import logging
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TypeVar

from diffusion_worker.engine.canvas import Canvas
from diffusion_worker.engine.output import Output
from diffusion_worker.engine.penalties import LogitShifts
from diffusion_worker.log_lines import request_fields
from diffusion_worker.samplers.settings import Settings
from diffusion_worker.wire import BlockEvent, DraftEvent, ErrorEvent, FinishEvent, ScoreEvent

Emit = Callable[[BlockEvent | DraftEvent | FinishEvent | ErrorEvent], None]
EmitScore = Callable[[ScoreEvent | ErrorEvent], None]
E = TypeVar("E", bound=BlockEvent | DraftEvent | FinishEvent | ScoreEvent | ErrorEvent)

_log = logging.getLogger(__name__)


@dataclass(eq=False)
class Row:
    """A request with everything that its next step needs. Its tokens depend on nothing outside it.

    Owned by the engine's thread; only `cancelled` is written from outside.
    """

    request_id: str
    prompt_token_ids: list[int]
    max_tokens: int
    temperature: float
    top_p: float
    seed: int
    output: Output
    emit: Emit
    settings: Settings | None = None  # of a diffusion row
    shifts: LogitShifts | None = None  # penalties and biases; None: the request asks for none
    logprobs: int | None = None  # alternatives per token; None: the request asks for no log-probabilities
    drafts: bool = False  # show its canvas in work
    background: bool = False  # makes room for every row that is not
    traceparent: str | None = None  # of the trace that the request is part of
    arrived: float = field(default_factory=time.monotonic)
    started: float | None = None
    cancelled: bool = False

    slot: int | None = None  # of the cache
    cached: int = 0  # tokens whose keys and values are in the cache
    pending: list[int] = field(default_factory=list)  # tokens that must enter the cache before the next step
    canvas: Canvas | None = None  # being denoised; None on an autoregressive row and between canvases

    steps: int = 0
    blocks: int = 0
    held: list[BlockEvent] = field(default_factory=list)  # of a background row, sent together at its end

    @property
    def queue_seconds(self) -> float:
        """From arrival to the first pass; 0 for a row that has not run."""
        return 0.0 if self.started is None else self.started - self.arrived

    @property
    def log_fields(self) -> dict[str, str]:
        """What names the request in a log line."""
        return request_fields(self.request_id, self.traceparent)

    def count_cached(self, tokens: int) -> None:
        """Note that the next `tokens` pending tokens are in the cache now."""
        self.cached += tokens
        del self.pending[:tokens]


def tell(emit: Callable[[E], None], event: E, *, log_fields: dict[str, str]) -> bool:
    """Call a submitter back; False when the callback raised."""
    try:
        emit(event)
    except Exception:  # noqa: BLE001 - a listener's fault is not the engine's
        request_id = log_fields["request_id"]
        _log.exception("the listener of request %s failed on a %s event", request_id, event.type, extra=log_fields)
        return False
    return True
