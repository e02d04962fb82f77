"""What is known of one request: filled on its way, then logged and counted once. Never holds text of prompt or answer."""

import re
import time
import uuid
from dataclasses import dataclass, field

import structlog
from diffusion_operator.api.status import RouteArm
from diffusion_worker.wire import FinishEvent

from .metrics import Metrics, arm_labels
from .question import Failure
from .reasons import Reason, WorkerError
from .routes import Model
from .trace_context import TraceContext

CLIENT_GONE = 499
"""Nobody reads it; nginx' code for a client that left, so that logs and metrics tell it from our failures."""
BROKEN_OFF = 502
"""In metrics, for a stream that began with 200 and broke off."""

_PROBED = frozenset({"/healthz", "/readyz", "/metrics"})
_REQUEST_ID = re.compile(r"[A-Za-z0-9._:-]{1,128}")
_log = structlog.get_logger()


def request_id_from(given: str | None) -> str:
    """The client's `x-request-id` if it is fit for headers and logs, else a new one."""
    return given if given is not None and _REQUEST_ID.fullmatch(given) else uuid.uuid4().hex


@dataclass
class Trace:
    """One HTTP request."""

    request_id: str
    method: str
    path: str
    context: TraceContext
    unique_id: str = field(default_factory=lambda: uuid.uuid4().hex)
    """Clients may send the same request id twice; workers need it to be unique."""
    started: float = field(default_factory=time.monotonic)
    status: int = 0
    is_completion: bool = False
    model: Model | None = None
    arm: RouteArm | None = None
    asked_at: float | None = None
    """When the arm that answers was asked."""
    failures: list[Failure] = field(default_factory=list)
    first_text_at: float | None = None
    choices: int = 1
    """Of all prompts."""
    choices_per_prompt: int = 1
    finishes: list[FinishEvent] = field(default_factory=list)
    """One per choice that has ended."""
    broken: str | None = None
    """Why a stream broke off."""
    broken_by: Reason | None = None
    """What the arm did, if it was the arm."""
    client_gone: bool = False
    admitted: bool = False
    """Counted as in flight."""
    held_bytes: int = 0
    """Of its body, counted as held."""
    held_choices: int = 0
    """Counted as held."""

    @property
    def worker_request_id(self) -> str:
        """Greppable by request id, unique all the same."""
        return f"{self.request_id}.{self.unique_id[:8]}"

    @property
    def is_probe(self) -> bool:
        """Asked every few seconds by machines, whatever happens here."""
        return self.path in _PROBED

    @property
    def prompt_tokens(self) -> int:
        """As the workers counted them; a prompt counts once, whatever the number of its choices."""
        return sum(finish.prompt_tokens for finish in self.finishes) // self.choices_per_prompt

    @property
    def code(self) -> int:
        """HTTP status as counted: what happened, also after the header was sent."""
        if self.client_gone:
            return CLIENT_GONE
        return BROKEN_OFF if self.broken and self.status == 200 else self.status

    def break_off(self, error: Exception) -> None:
        """The answer ends in the middle."""
        self.broken = str(error)
        self.broken_by = error.reason if isinstance(error, WorkerError) else None

    def count(self, metrics: Metrics) -> None:
        """Count a completion."""
        labels = arm_labels(self.model, self.arm)
        metrics.requests.requests.labels(*labels, str(self.code)).inc()
        if self.arm is None:
            return
        if self.model is not None and self.broken_by is not None:
            metrics.arms.count_failed(self.model, self.arm, self.broken_by)
        if self.first_text_at is not None:
            metrics.requests.first_token_seconds.labels(*labels).observe(self.first_text_at - self.started)
        if len(self.finishes) == self.choices and not self.client_gone:
            metrics.requests.duration_seconds.labels(*labels).observe(time.monotonic() - self.started)
            metrics.requests.output_tokens.labels(*labels).inc(
                sum(finish.completion_tokens for finish in self.finishes)
            )
            metrics.requests.prompt_tokens.labels(*labels).inc(self.prompt_tokens)

    def log(self) -> None:
        """Write the access log's line."""
        seconds = time.monotonic() - self.started
        facts: dict[str, object] = {
            "request_id": self.request_id,
            "trace_id": self.context.trace_id,
            "method": self.method,
            "path": self.path,
            "code": self.code,
        }
        facts["seconds"] = round(seconds, 4)
        if self.model:
            facts["model"] = self.model.key
        if self.arm:
            facts |= {"arm": self.arm.role.value, "revision": self.arm.revision, "kind": self.arm.kind.value}
        if self.first_text_at is not None:
            facts["first_text_seconds"] = round(self.first_text_at - self.started, 4)
        if self.finishes:
            facts["reason"] = ",".join(finish.reason for finish in self.finishes)
            facts["prompt_tokens"] = self.prompt_tokens
            for name in ("completion_tokens", "steps", "blocks"):
                facts[name] = sum(getattr(finish, name) for finish in self.finishes)
        if self.failures:
            facts["failures"] = [f"{item.arm.role}: {item.reason}: {item.message}" for item in self.failures]
        if self.broken:
            facts["broken_off"] = self.broken
        log = _log.debug if self.is_probe and self.status == 200 else _log.info
        log("request", **facts)
