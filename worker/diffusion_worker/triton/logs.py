"""The worker's log: on standard error, beside Triton's own lines, which are text."""

import sys

from diffusion_worker import log_lines


def configure() -> None:
    """Set up logging of the process. Lines that concern a request name it: see `log_lines.request_fields`."""
    log_lines.configure(json=True, level="info", stream=sys.stderr, shows_extra=True)
