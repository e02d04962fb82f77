"""How all programs render a line of their logs. One place, because of what no traceback may show."""

import structlog

# Without the values of local variables, which structlog shows by default: among them are prompts, and the token for the API server.
_TRACEBACKS = structlog.processors.ExceptionRenderer(structlog.tracebacks.ExceptionDictTransformer(show_locals=False))


def renderers(*, json: bool) -> list[structlog.typing.Processor]:
    """The last processors: one JSON object per line for machines, or text for people."""
    if json:
        return [_TRACEBACKS, structlog.processors.JSONRenderer()]
    return [structlog.dev.ConsoleRenderer(exception_formatter=structlog.dev.plain_traceback)]


def request_fields(request_id: str, traceparent: str | None) -> dict[str, str]:
    """What names a request in a line (`extra` of standard logging). Nothing of what it says is among it."""
    return {"request_id": request_id} | ({} if traceparent is None else {"traceparent": traceparent})
