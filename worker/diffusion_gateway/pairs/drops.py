"""Why a sampled answer became no pair."""

from enum import StrEnum


class Drop(StrEnum):
    """A label of the metric of dropped pairs, beside the reasons for which AR's pods fail (`reasons.Reason`)."""

    QUEUE_FULL = "pairs_queue_full"
    TOO_LARGE = "too_large"
    EMPTY_ANSWER = "empty_answer"
    TOO_SHORT = "too_short"
    REFUSED = "refused"
    NOT_FINITE = "not_finite"
    FAILED = "failed"

    @property
    def words(self) -> str:
        """For the reference page."""
        return _WORDS[self]


_WORDS = {
    Drop.QUEUE_FULL: "as many samples of this model, or of all models together, wait as may",
    Drop.TOO_LARGE: "prompt and answer are larger than what is kept of a sample",
    Drop.EMPTY_ANSWER: "one side said nothing",
    Drop.TOO_SHORT: "one side said too little for its mean to tell anything",
    Drop.REFUSED: "AR takes no such request, for example because it is longer than its limit",
    Drop.NOT_FINITE: "a likelihood was no number",
    Drop.FAILED: "a mistake of ours, which the gateway's log has",
}


class DroppedError(Exception):
    """This sample becomes no pair. Holds no text of prompt or answer."""

    def __init__(self, reason: str) -> None:
        super().__init__(reason)
        self.reason = reason
