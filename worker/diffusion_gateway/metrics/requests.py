"""Requests as clients see them."""

from diffusion_operator.api.status import RouteArm

from ..routes import Model
from .families import Families
from .labels import ARM, MODEL, arm_labels

_FIRST_TOKEN_BUCKETS = (0.02, 0.05, 0.1, 0.2, 0.3, 0.4, 0.5, 0.75, 1, 1.5, 2.5, 5, 10, 30)
_TOTAL_BUCKETS = (0.05, 0.1, 0.25, 0.5, 1, 2, 3, 5, 7.5, 10, 15, 20, 30, 60, 120, 300)


class RequestMetrics:
    """One request is one request here, whichever arms were asked for it."""

    def __init__(self, families: Families) -> None:
        self.requests = families.counter(
            "requests",
            "Requests for a completion by HTTP code and the arm that answered; the arm's labels are empty when none did, the "
            "model's when it is not known. 499: the client left. A stream that broke off counts as 502.",
            (*ARM, "code"),
        )
        self.ruled = families.counter(
            "ruled_requests", "Requests that a rule sent to AR, whatever the weights say.", (*MODEL, "rule")
        )
        self.first_token_seconds = families.histogram(
            "time_to_first_token_seconds",
            "From the request's arrival to the first text from a worker, arms that failed before included.",
            ARM,
            buckets=_FIRST_TOKEN_BUCKETS,
        )
        self.duration_seconds = families.histogram(
            "request_duration_seconds",
            "From the request's arrival to the end of the answer, as fast as the client reads. Complete answers only.",
            ARM,
            buckets=_TOTAL_BUCKETS,
        )
        self.output_tokens = families.counter("output_tokens", "Tokens of complete answers.", ARM)
        self.prompt_tokens = families.counter("prompt_tokens", "Prompt tokens of complete answers.", ARM)
        self.in_flight = families.gauge("requests_in_flight", "Requests for a completion that are being answered.")

    def begin(self, model: Model, arm: RouteArm) -> None:
        """Let what an arm is judged by begin at 0."""
        self.first_token_seconds.labels(*arm_labels(model, arm))

    def count_ruled(self, model: Model, rule: str) -> None:
        """A rule overruled the weights."""
        self.ruled.labels(model.namespace, model.name, rule).inc()
