"""The gateway's metrics that gates are judged on. What each counts is in docs/reference/metrics.md."""

from enum import StrEnum


class Family(StrEnum):
    """Counters of the gateways, without those that only people look at."""

    REQUESTS = "diffusion_gateway_arm_requests_total"
    FAILED = "diffusion_gateway_arm_failed_requests_total"
    FIRST_TOKEN = "diffusion_gateway_time_to_first_token_seconds_bucket"  # noqa: S105 no secret
    ANSWERS = "diffusion_gateway_answers_total"
    ANSWER_SECONDS = "diffusion_gateway_answer_seconds_total"
    ANSWER_SECONDS_SQUARED = "diffusion_gateway_answer_seconds_squared_total"
    CHECKED = "diffusion_gateway_checked_answers_total"
    REPEATING = "diffusion_gateway_repeating_answers_total"
    PAIRS = "diffusion_gateway_pairs_total"
    NLL_ABOVE = "diffusion_gateway_pair_nll_above_total"
    NLL_BELOW = "diffusion_gateway_pair_nll_below_total"
    NLL_SQUARED = "diffusion_gateway_pair_nll_squared_total"


ERRORS = (Family.REQUESTS, Family.FAILED)
LATENCY = (Family.ANSWERS, Family.ANSWER_SECONDS, Family.ANSWER_SECONDS_SQUARED)
REPETITION = (Family.CHECKED, Family.REPEATING)
PAIRS = (Family.PAIRS, Family.NLL_ABOVE, Family.NLL_BELOW, Family.NLL_SQUARED)

SPEED = (*ERRORS, Family.FIRST_TOKEN, *LATENCY)
"""What the guard's minutes need."""

# Which revision each counts for: answers of both arms are needed, pairs have a label for each.
OF_BOTH_ARMS = frozenset(LATENCY)
OF_A_PAIR = frozenset(PAIRS)
