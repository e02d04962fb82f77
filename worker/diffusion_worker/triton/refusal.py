"""Why the backend refused to start for want of memory, from its process to the launcher, which leaves it where Kubernetes shows it."""

import contextlib
import logging
import os
from collections.abc import Iterator
from pathlib import Path

from diffusion_worker.models.errors import MemoryBudgetError

VARIABLE = "DIFFUSION_WORKER_REFUSAL"  # names the file to the backend
TERMINATION_LOG = Path("/dev/termination-log")
_MOST_BYTES = 4096  # that Kubernetes keeps

_log = logging.getLogger(__name__)


@contextlib.contextmanager
def left_behind() -> Iterator[None]:
    """Write down that a model takes more memory than it may, before the error goes on."""
    try:
        yield
    except MemoryBudgetError as error:
        file = os.environ.get(VARIABLE)
        if file:
            Path(file).write_text(str(error), encoding="utf-8")
        raise


def read(file: Path) -> str | None:
    """What was written down; None when the backend refused nothing."""
    return file.read_text(encoding="utf-8") if file.is_file() else None


def tell_kubernetes(reason: str, *, termination_log: Path = TERMINATION_LOG) -> None:
    """Leave the reason as the container's termination message. Outside a container there is no such file."""
    if not termination_log.exists():
        return
    try:
        termination_log.write_bytes(reason.encode()[:_MOST_BYTES])
    except OSError as error:
        _log.warning("cannot write the termination message: %s", error)
