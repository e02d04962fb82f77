"""How a benchmark's command ends."""

import sys
from collections.abc import Callable

from benchmarks.errors import BenchmarkError


def exit_code(action: Callable[[], None], *, interrupted: str = "") -> int:
    """0: measured; 1: could not be measured, and standard error says why; 130: Ctrl-C, after the words for it."""
    try:
        action()
    except BenchmarkError as error:
        sys.stderr.write(f"error: {error}\n")
        return 1
    except KeyboardInterrupt:
        sys.stderr.write(interrupted)
        return 130
    return 0
