"""Tells the person who waits what is being done, for how long and how far."""

import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from types import TracebackType
from typing import Self

_TERMINAL_SECONDS = 1.0
_LOG_SECONDS = 15.0


class Step:
    """One piece of work, printed when it starts, while it lasts and when it ends.

    Set `detail` to tell how far it is. A terminal sees the line change every second; a log file gets
    a line every 15 seconds.
    """

    def __init__(self, title: str) -> None:
        self.title = title
        self.detail = ""
        self._began = time.monotonic()
        self._ended = threading.Event()
        self._ticker = threading.Thread(target=self._tick, daemon=True)

    @property
    def seconds(self) -> float:
        return time.monotonic() - self._began

    def __enter__(self) -> Self:
        if sys.stderr.isatty():
            self._show()
        else:
            _write(f"• {self.title} …\n")
        self._ticker.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self._ended.set()
        self._ticker.join()
        mark = "✓" if error is None else "✗"
        start = "\r\033[K" if sys.stderr.isatty() else ""
        detail = f", {self.detail}" if self.detail else ""
        _write(f"{start}{mark} {self.title} ({self.seconds:.1f} s{detail})\n")

    def _tick(self) -> None:
        while not self._ended.wait(_TERMINAL_SECONDS if sys.stderr.isatty() else _LOG_SECONDS):
            self._show()

    def _show(self) -> None:
        text = f"… {self.title} ({self.seconds:.0f} s) {self.detail}"
        _write(f"\r\033[K{text[:150]}" if sys.stderr.isatty() else f"{text}\n")


@contextmanager
def step(title: str) -> Iterator[Step]:
    """Report `title` as a step for as long as the block runs."""
    with Step(title) as running:
        yield running


def say(text: str) -> None:
    """Print one line about what was found or decided."""
    _write(f"  {text}\n")


def _write(text: str) -> None:
    sys.stderr.write(text)
    sys.stderr.flush()
