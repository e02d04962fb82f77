"""Why a sampled answer became no pair."""

from enum import StrEnum


class Drop(StrEnum):
    """A label of the metric of dropped pairs, beside the reasons for which AR's pods fail (`reasons.Reason`)."""

    QUEUE_FULL = "pairs_queue_full"
    """As many of this model, or of all, wait as may."""
    TOO_LARGE = "too_large"
    """Prompt or answer are larger than what is kept of one."""
    EMPTY_ANSWER = "empty_answer"
    """One side said nothing."""
    TOO_SHORT = "too_short"
    """One side said too little for its mean to tell anything."""
    REFUSED = "refused"
    """AR takes no such request, for example because it is longer than its limit."""
    NOT_FINITE = "not_finite"
    """A likelihood that is no number."""
    FAILED = "failed"
    """A mistake of ours; the log has it."""


class DroppedError(Exception):
    """This sample becomes no pair. Holds no text of prompt or answer."""

    def __init__(self, reason: str) -> None:
        super().__init__(reason)
        self.reason = reason
