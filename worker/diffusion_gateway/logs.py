"""The gateway's log: on standard output."""

import sys

from diffusion_worker import log_lines


def configure(*, log_format: str, level: str) -> None:
    """Set up logging of the process."""
    # uvicorn says on "info" what our own lines say better.
    log_lines.configure(json=log_format == "json", level=level, stream=sys.stdout, shows_extra=True, quiet=("uvicorn",))
