"""What a client is told when nobody answers: pure, from what was asked and what happened."""

from collections.abc import Sequence

from diffusion_operator.api.status import ArmKind

from .openai.errors import ApiError, invalid_parameter, overloaded, unavailable
from .question import Failure, Question
from .reasons import Reason
from .routes import Plan

_FULL = frozenset({Reason.QUEUE_FULL, Reason.OVERLOADED, Reason.BUSY})


def unanswered(question: Question, chosen: Plan, failures: Sequence[Failure], *, retry_after_seconds: int) -> ApiError:
    """400 if no arm could ever answer this, 429 if a queue was full or a pod too busy, else 503. `retry_after_seconds` goes with a 429."""
    name = question.model.name
    if not chosen.arms and question.model.arms and question.autoregressive_only:
        return _only_autoregressive(question)
    if not chosen.arms and question.forced is not None:
        return invalid_parameter(
            "x-diffusion-arm", f"{name} has no {question.forced} arm now; leave out the header x-diffusion-arm."
        )
    if not chosen.arms:
        return unavailable(f"{name} has no route yet: its first pods are still starting. Try again later.")
    told = "; ".join(str(failure) for failure in failures)
    if any(failure.reason in _FULL for failure in failures):
        return overloaded(
            f"{name} is overloaded; try again later. Asked were {told}.", retry_after_seconds=retry_after_seconds
        )
    return unavailable(f"{name} cannot answer now. Asked were {told}.")


def _only_autoregressive(question: Question) -> ApiError:
    """There is no arm that could honour what was asked for, now or as long as this arm is forced."""
    param = question.autoregressive_only[0]
    has_one = any(arm.kind == ArmKind.AR for arm in question.model.arms)
    remedy = "or do not force another arm with x-diffusion-arm" if has_one else "this model has no such arm"
    return invalid_parameter(
        param,
        f"{param} can be honoured by an autoregressive arm only, not by a diffusion arm; leave it out, {remedy}.",
        code="unsupported_parameter",
    )
