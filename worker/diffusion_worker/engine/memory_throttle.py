"""How much of the memory rows may take after an allocation has failed: less at once, and more again slowly."""

from dataclasses import dataclass

_LESS = 0.75  # of what was allowed, after each failure
_LEAST = 0.1
_MORE = 0.05  # of all, after each while without a failure
_WHILE_SECONDS = 60.0


@dataclass
class Throttle:
    """The share of rows and bytes that is allowed. Time is given, in seconds of any clock."""

    share: float = 1.0
    _changed: float = 0.0

    def failed(self, now: float) -> None:
        """An allocation has failed."""
        self.share = max(_LEAST, self.share * _LESS)
        self._changed = now

    def recover(self, now: float) -> None:
        """Time has gone by without a failure."""
        whiles = int((now - self._changed) // _WHILE_SECONDS)
        if self.share < 1.0 and whiles > 0:
            self.share = min(1.0, self.share + whiles * _MORE)
            self._changed += whiles * _WHILE_SECONDS
