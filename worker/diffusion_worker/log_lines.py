"""The logs of all programs: one JSON object a line for machines, or text for people. One place, because of what no traceback may show.

Lines come from structlog and from standard logging (uvicorn, kopf, asyncio) alike.
"""

import logging
from collections.abc import Iterable
from typing import TextIO

import structlog

# Without the values of local variables, which structlog shows by default: among them are prompts, and the token for the API server.
_TRACEBACKS = structlog.processors.ExceptionRenderer(structlog.tracebacks.ExceptionDictTransformer(show_locals=False))


def configure(*, json: bool, level: str, stream: TextIO, shows_extra: bool, quiet: Iterable[str] = ()) -> None:
    """Set up logging of the process.

    `shows_extra`: the fields that lines of standard logging carry are shown. `quiet`: loggers of which only warnings count.
    """
    shared: list[structlog.typing.Processor] = [
        structlog.contextvars.merge_contextvars,
        structlog.stdlib.add_logger_name,
        structlog.stdlib.add_log_level,
        structlog.processors.TimeStamper(fmt="iso", utc=True),
    ]
    structlog.configure(
        processors=[*shared, structlog.stdlib.ProcessorFormatter.wrap_for_formatter],
        logger_factory=structlog.stdlib.LoggerFactory(),
        wrapper_class=structlog.stdlib.BoundLogger,
        cache_logger_on_first_use=True,
    )
    handler = logging.StreamHandler(stream)
    handler.setFormatter(
        structlog.stdlib.ProcessorFormatter(
            foreign_pre_chain=[*shared, *([structlog.stdlib.ExtraAdder()] if shows_extra else [])],
            processors=[structlog.stdlib.ProcessorFormatter.remove_processors_meta, *_renderers(json=json)],
        )
    )
    root = logging.getLogger()
    root.handlers[:] = [handler]
    root.setLevel(level.upper())
    for name in quiet:
        logging.getLogger(name).setLevel(max(logging.WARNING, root.level))


def _renderers(*, json: bool) -> list[structlog.typing.Processor]:
    if json:
        return [_TRACEBACKS, structlog.processors.JSONRenderer()]
    return [structlog.dev.ConsoleRenderer(exception_formatter=structlog.dev.plain_traceback)]


def request_fields(request_id: str, traceparent: str | None) -> dict[str, str]:
    """What names a request in a line (`extra` of standard logging). Nothing of what it says is among it."""
    return {"request_id": request_id} | ({} if traceparent is None else {"traceparent": traceparent})
