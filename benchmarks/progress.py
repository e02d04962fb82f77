"""What a person sees who waits for a benchmark."""

import sys
import time

_started = time.monotonic()


def say(text: str) -> None:
    """Tell on standard error; standard output is for the tables."""
    sys.stderr.write(f"[{time.monotonic() - _started:6.1f} s] {text}\n")
    sys.stderr.flush()
