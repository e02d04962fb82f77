"""How far a run is, on standard error."""

import sys
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TextIO

_TERMINAL_SECONDS, _LOG_SECONDS = 0.5, 10.0  # between two reports to a person who looks, and to a file


@dataclass
class Progress:
    """Counts what is done and says so now and then."""

    total: int
    done_before: int = 0
    out: TextIO = field(default_factory=lambda: sys.stderr)
    clock: Callable[[], float] = time.monotonic
    done: int = 0
    failed: int = 0
    tokens: int = 0

    def __post_init__(self) -> None:
        """Start the clock."""
        self._started = self.clock()
        self._reported = self._started
        self._live = self.out.isatty()
        if self.done_before:
            self.out.write(f"{self.done_before} of {self.total} are done already\n")

    def count(self, *, tokens: int, failed: bool) -> None:
        """One more result."""
        self.done += 1
        self.failed += failed
        self.tokens += tokens
        now = self.clock()
        if now - self._reported >= (_TERMINAL_SECONDS if self._live else _LOG_SECONDS):
            self._reported = now
            self.out.write(f"\r\x1b[K{self.line()}" if self._live else f"{self.line()}\n")
            self.out.flush()

    def finish(self) -> None:
        """The last report."""
        self.out.write(f"\r\x1b[K{self.line()}\n" if self._live else f"{self.line()}\n")
        self.out.flush()

    def line(self) -> str:
        """As it stands now."""
        seconds = self.clock() - self._started
        rate = f", {self.tokens / seconds:.0f} tokens/s" if seconds > 0 else ""
        left = self.total - self.done_before - self.done
        remaining = f", about {_duration(seconds / self.done * left)} left" if self.done and left else ""
        failed = f", {self.failed} failed" if self.failed else ""
        return f"{self.done_before + self.done} of {self.total} done{failed}{rate}{remaining}"


def _duration(seconds: float) -> str:
    minutes, rest = divmod(round(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours}h{minutes:02d}m" if hours else f"{minutes}m{rest:02d}s" if minutes else f"{rest}s"
