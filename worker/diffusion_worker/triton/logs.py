"""One JSON object a line on standard error, beside Triton's own lines, which are text."""

import logging
import sys

import structlog

from diffusion_worker.log_lines import renderers


def configure() -> None:
    """Set up logging of the process. Lines that concern a request name it: see `log_lines.request_fields`."""
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(
        structlog.stdlib.ProcessorFormatter(
            foreign_pre_chain=[
                structlog.stdlib.add_log_level,
                structlog.stdlib.add_logger_name,
                structlog.processors.TimeStamper(fmt="iso", utc=True),
                structlog.stdlib.ExtraAdder(),
            ],
            processors=[structlog.stdlib.ProcessorFormatter.remove_processors_meta, *renderers(json=True)],
        )
    )
    root = logging.getLogger()
    root.handlers[:] = [handler]
    root.setLevel(logging.INFO)
