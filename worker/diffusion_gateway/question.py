"""What is asked, and what went wrong on the way to an answer."""

from dataclasses import dataclass

from diffusion_operator.api.status import ArmRole, RouteArm
from diffusion_worker.wire import GenerateRequest

from .reasons import Reason
from .routes import Model, Table
from .workload import Workload


@dataclass(frozen=True)
class Failure:
    """An arm that did not answer, or not well enough."""

    arm: RouteArm
    reason: Reason
    message: str
    """Details for the log: may name pods and their addresses."""
    asked_at: float
    failed_at: float
    """On the dispatcher's clock."""

    def __str__(self) -> str:
        return f"the {self.arm.role} arm ({self.arm.kind}): {self.reason.words}"


@dataclass(frozen=True)
class Question:
    """A request with everything that decides who answers it, and until when."""

    table: Table
    model: Model
    requests: tuple[GenerateRequest, ...]
    """One per prompt and choice; those of one prompt differ in their seeds alone."""
    forced: ArmRole | None
    whole: bool
    """The client gets the answer in one piece, so that every arm may fail up to its last event."""
    deadline: float
    """On the dispatcher's clock."""
    user: str | None = None
    """Who asks, for models that keep each user on one arm."""
    workload: Workload | None = None
    """What kind of work it is, as the client says."""
    traceparent: str | None = None
    """W3C trace context, for the worker's log lines."""

    @property
    def autoregressive_only(self) -> tuple[str, ...]:
        """Parameters that only an AR arm can honour."""
        return self.requests[0].autoregressive_only

    @property
    def text(self) -> str:
        """What the person asks: the last thing that they said. Empty for a prompt of tokens."""
        first = self.requests[0]
        said = [message.content for message in first.messages or () if message.role == "user"]
        return first.prompt or (said[-1] if said else "")

    @property
    def sets_cap_of_steps(self) -> bool:
        """Whether the client takes it upon itself how often a canvas is denoised."""
        return self.requests[0].sampler.max_denoising_steps is not None
