"""Why an arm's answer is not the one that a client gets: one list for routing, breakers and metrics."""

from enum import StrEnum


class Reason(StrEnum):
    """Why an arm gave no answer, or none that is good enough. A label of the fallback metric."""

    NO_READY_POD = "no_ready_pod"
    UNAVAILABLE = "unavailable"
    """No connection, or it broke, or the pod is going away."""
    WRONG_REVISION = "wrong_revision"
    """Another revision's pod has the address now."""
    QUEUE_FULL = "queue_full"
    OVERLOADED = "overloaded"
    """The engine has no room for it, though Triton's queue had."""
    PREEMPTED = "preempted"
    """A background request made room for one that a client waits for."""
    UNAUTHORIZED = "unauthorized"
    """A server that is not ours refuses our key, or there is none."""
    TIMEOUT = "timeout"
    """Nothing came for too long."""
    BUSY = "busy"
    """The same, while the pod went on speaking to others."""
    ENGINE_ERROR = "engine_error"
    NON_FINITE = "non_finite"
    """Logits were not numbers."""
    OUT_OF_MEMORY = "out_of_memory"
    EMPTY = "empty"
    """The answer ended without any text."""
    UNCONVERGED = "unconverged"
    """Its canvases hit the cap of steps before they were stable."""
    REPETITION = "repetition"
    BREAKER_OPEN = "breaker_open"
    """All its pods failed lately; none was asked."""
    GATEWAY_STOPS = "gateway_stops"

    @property
    def words(self) -> str:
        """For clients, who need not know addresses."""
        return _WORDS[self]


_WORDS = {
    Reason.NO_READY_POD: "no pod is ready",
    Reason.UNAVAILABLE: "its pod is gone",
    Reason.WRONG_REVISION: "its pod was replaced",
    Reason.QUEUE_FULL: "its queue is full",
    Reason.OVERLOADED: "its engine is full",
    Reason.PREEMPTED: "it made room for another request",
    Reason.UNAUTHORIZED: "it does not take our key",
    Reason.TIMEOUT: "it sent nothing for too long",
    Reason.BUSY: "it was busy with others for too long",
    Reason.ENGINE_ERROR: "its engine failed",
    Reason.NON_FINITE: "its model computed no numbers",
    Reason.OUT_OF_MEMORY: "it ran out of memory",
    Reason.EMPTY: "its answer was empty",
    Reason.UNCONVERGED: "its answer did not converge",
    Reason.REPETITION: "its answer repeated itself",
    Reason.BREAKER_OPEN: "its pods failed lately and rest",
    Reason.GATEWAY_STOPS: "the gateway is shutting down",
}


class WorkerError(Exception):
    """A pod did not answer, or stopped in the middle."""

    def __init__(self, reason: Reason, message: str) -> None:
        super().__init__(message)
        self.reason = reason
        self.message = message
