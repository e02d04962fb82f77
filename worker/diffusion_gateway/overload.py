"""How soon it is worth to come back: from how fast answers end, and how many are under way."""

import math
from collections import deque

LONGEST_RETRY_SECONDS = 60
_WINDOW_SECONDS = 60


class ServiceRate:
    """How many rows end per second, over the last minute. Times are seconds on one clock that never goes back."""

    def __init__(self, now: float) -> None:
        """`now`: since when there is something to count."""
        self._since = now
        self._slots: deque[tuple[int, int]] = deque(maxlen=_WINDOW_SECONDS)
        """Whole seconds and the rows that ended in them."""

    def count(self, now: float) -> None:
        """A row has ended with an answer."""
        second = int(now)
        _, rows = self._slots.pop() if self._slots and self._slots[-1][0] == second else (second, 0)
        self._slots.append((second, rows + 1))

    def per_second(self, now: float) -> float:
        """Rows per second; 0 when none has ended in the last minute."""
        while self._slots and self._slots[0][0] <= now - _WINDOW_SECONDS:
            self._slots.popleft()
        elapsed = min(max(now - self._since, 1.0), float(_WINDOW_SECONDS))
        return sum(rows for _, rows in self._slots) / elapsed


def retry_after_seconds(*, rows: int, rows_per_second: float) -> int:
    """When the rows that are under way will have ended, in whole seconds from 1 to 60."""
    if rows <= 0:
        return 1
    if rows_per_second <= 0:
        return LONGEST_RETRY_SECONDS
    return max(1, math.ceil(min(rows / rows_per_second, LONGEST_RETRY_SECONDS)))
