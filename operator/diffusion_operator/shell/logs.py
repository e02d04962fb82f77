"""The operator's log: on standard error."""

import sys

from diffusion_worker import log_lines


def configure(*, json: bool, level: str) -> None:
    """Set up logging of the process."""
    # kopf's lines carry whole objects as extra fields.
    quiet = ("kopf.objects", "aiohttp.access", "asyncio")
    log_lines.configure(json=json, level=level, stream=sys.stderr, shows_extra=False, quiet=quiet)
