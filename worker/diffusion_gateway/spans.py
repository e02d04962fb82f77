"""Spans of a request that has ended, from what its `Trace` holds: one for the request, one for each arm that was asked.

Names and numbers only, never text of prompt or answer.
"""

from dataclasses import dataclass

from diffusion_operator.api.status import RouteArm

from .trace import Trace
from .trace_context import new_span_id

Attribute = str | int | float | bool | list[str]
_ROUTES = ("/v1/chat/completions", "/v1/completions", "/v1/models")


@dataclass(frozen=True)
class Span:
    """What OpenTelemetry needs to know of one span."""

    name: str
    span_id: str
    """16 hex digits."""
    parent_id: str | None
    of_client: bool
    """We ask somebody; otherwise we are asked."""
    started: float
    ended: float
    """Monotonic seconds, as in `Trace`."""
    error: str | None
    attributes: dict[str, Attribute]


def spans_of(trace: Trace, *, ended: float) -> list[Span]:
    """All spans of a request; the request's own comes last."""
    own = trace.context.span_id
    spans = [
        Span(
            name=f"ask {failure.arm.role}",
            span_id=new_span_id(),
            parent_id=own,
            of_client=True,
            started=failure.asked_at,
            ended=failure.failed_at,
            error=str(failure.reason),
            attributes=_of_arm(failure.arm) | {"error.type": str(failure.reason)},
        )
        for failure in trace.failures
    ]
    if trace.arm is not None and trace.asked_at is not None:
        spans.append(
            Span(
                name=f"ask {trace.arm.role}",
                span_id=new_span_id(),
                parent_id=own,
                of_client=True,
                started=trace.asked_at,
                ended=ended,
                error=trace.broken,
                attributes=_of_arm(trace.arm) | _of_answer(trace),
            )
        )
    route = _route(trace.path)
    facts: dict[str, Attribute] = {
        "http.request.method": trace.method,
        "http.response.status_code": trace.code,
        "diffusion.request_id": trace.request_id,
    }
    if route:
        facts["http.route"] = route
    if trace.model:
        facts["gen_ai.request.model"] = trace.model.key
    spans.append(
        Span(
            name=f"{trace.method} {route}" if route else trace.method,
            span_id=own,
            parent_id=trace.context.parent_id,
            of_client=False,
            started=trace.started,
            ended=ended,
            error=trace.broken or (f"HTTP {trace.status}" if trace.status >= 500 else None),
            attributes=facts,
        )
    )
    return spans


def _route(path: str) -> str | None:
    """Without names in it; None: there is no such URL."""
    if path.startswith("/v1/models/"):
        return "/v1/models/{name}"
    return path if path in _ROUTES else None


def _of_arm(arm: RouteArm) -> dict[str, Attribute]:
    return {"diffusion.arm": arm.role.value, "diffusion.kind": arm.kind.value, "diffusion.revision": arm.revision}


def _of_answer(trace: Trace) -> dict[str, Attribute]:
    facts: dict[str, Attribute] = {}
    if trace.first_text_at is not None:
        facts["diffusion.first_text_seconds"] = trace.first_text_at - trace.started
    if trace.finishes:
        facts |= {
            "gen_ai.usage.input_tokens": trace.prompt_tokens,
            "gen_ai.usage.output_tokens": sum(finish.completion_tokens for finish in trace.finishes),
            "gen_ai.response.finish_reasons": [finish.reason for finish in trace.finishes],
            "diffusion.steps": sum(finish.steps for finish in trace.finishes),
        }
    return facts
