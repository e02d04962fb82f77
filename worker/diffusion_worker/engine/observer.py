"""What an engine tells its metrics."""

from dataclasses import dataclass
from enum import StrEnum
from typing import Protocol

from diffusion_worker.wire import BlockEvent, ErrorEvent, FinishEvent


class PassKind(StrEnum):
    """What one forward pass did."""

    ENCODE = "encode"  # prompt chunks and committed canvases into the cache
    DENOISE = "denoise"  # one denoising step of every canvas in the batch
    DECODE = "decode"  # one token for every autoregressive row in the batch
    SCORE = "score"  # a chunk of every text that is scored


class RowOutcome(StrEnum):
    """How a row ended."""

    STOP = "stop"
    LENGTH = "length"
    CANCELLED = "cancelled"
    REFUSED = "refused"  # never ran: its request was at fault
    FAILED = "failed"
    SHUT_DOWN = "shut_down"


OUTCOME_OF_ERROR = {
    "invalid_request": RowOutcome.REFUSED,
    "context_length_exceeded": RowOutcome.REFUSED,
    "engine_error": RowOutcome.FAILED,
    "non_finite": RowOutcome.FAILED,
    "out_of_memory": RowOutcome.FAILED,
    "wrong_revision": RowOutcome.REFUSED,
    "preempted": RowOutcome.CANCELLED,
    "shutting_down": RowOutcome.SHUT_DOWN,
    "cancelled": RowOutcome.CANCELLED,
    "overloaded": RowOutcome.REFUSED,
}


def outcome_of(event: FinishEvent | ErrorEvent) -> RowOutcome:
    """How a row ended, from its last event."""
    return RowOutcome(event.reason) if isinstance(event, FinishEvent) else OUTCOME_OF_ERROR[event.code]


@dataclass(frozen=True)
class Pass:
    """One forward pass over a batch."""

    kind: PassKind
    rows: int
    seconds: float


class Observer(Protocol):
    """Hears about passes, blocks and rows. Called from the engine's thread (`row_ended` of a refused row: from the
    submitting thread), so it must be quick, thread-safe and must not raise."""

    def pass_done(self, done: Pass) -> None:
        """A forward pass over `done.rows` rows has ended."""

    def block_committed(self, block: BlockEvent) -> None:
        """A row committed a block; has its steps and whether it converged."""

    def row_ended(self, outcome: RowOutcome) -> None:
        """A row has left the engine."""


class NullObserver:
    """Observer for callers that want no metrics."""

    def pass_done(self, done: Pass) -> None:
        """Ignore."""

    def block_committed(self, block: BlockEvent) -> None:
        """Ignore."""

    def row_ended(self, outcome: RowOutcome) -> None:
        """Ignore."""
