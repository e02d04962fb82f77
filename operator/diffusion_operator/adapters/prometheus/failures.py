"""Why a question to Prometheus has no answer that can be used."""

from enum import StrEnum


class Reason(StrEnum):
    """Values of the label `reason` of `diffusion_operator_prometheus_failures_total`."""

    UNREACHABLE = "unreachable"
    TIMEOUT = "timeout"
    CREDENTIALS = "credentials"
    REDIRECT = "redirect"
    REFUSED = "refused"
    OVERLOADED = "overloaded"
    NOT_PROMETHEUS = "not_prometheus"
    INCOMPLETE = "incomplete"
    TOO_LARGE = "too_large"
    NOT_A_NUMBER = "not_a_number"
    NEVER_ANY_DATA = "never_any_data"
    NOT_SCRAPED = "not_scraped"
    SEVERAL_CLUSTERS = "several_clusters"
    MISTAKE = "mistake"


class NoAnswerError(Exception):
    """The message completes "no data: ..." and says what to do."""

    def __init__(self, reason: Reason, why: str) -> None:
        super().__init__(why)
        self.reason = reason
