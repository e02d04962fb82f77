"""The only place where the operator reads a clock."""

import time
from datetime import UTC, datetime


def now() -> datetime:
    """Wall-clock time in whole seconds, as Kubernetes writes times."""
    return datetime.now(UTC).replace(microsecond=0)


def monotonic() -> float:
    """Seconds that never go back."""
    return time.monotonic()
