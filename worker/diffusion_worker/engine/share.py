"""How much of a busy engine's time goes to work that nobody waits for. Pure: it is told what took how long."""

import math

MOST_SAVED_SECONDS = 0.25
"""What may be caught up at once after a time without such work."""


class TimeShare:
    """Credit in seconds: main work earns it in proportion, other work spends it and may begin while there is any.

    Of all time that is told, other work gets at most the share, plus the last piece of it (and for share 1, which any
    main work entitles to one more piece, at most one piece for each piece of main work).
    """

    def __init__(self, share: float) -> None:
        """`share` is from 0 to 1."""
        self._rate = math.inf if share == 1 else share / (1 - share)
        self._credit = 0.0

    @property
    def is_due(self) -> bool:
        """Whether a piece of other work may begin."""
        return self._credit > 0

    def earn(self, seconds: float) -> None:
        """Main work took so long."""
        if seconds > 0 and self._rate > 0:
            self._credit = min(MOST_SAVED_SECONDS, self._credit + seconds * self._rate)

    def spend(self, seconds: float) -> None:
        """Other work took so long."""
        self._credit -= seconds
