"""A circuit breaker for one pod: a pure state machine, told of the time by whoever uses it.

Closed, it counts what comes of requests over a sliding window. When too many of them are bad it opens, and the pod rests. After the
rest it is half open: a few requests probe the pod while everybody else still goes elsewhere. If all of them are good it closes, if
one is bad the pod rests again, twice as long. A pod that answers, only too slowly, rests as well, so that its queue gets shorter; but
such rests are all short: in a longer one it would have nothing to do, while those who are asked instead have too much.
"""

from collections import deque
from dataclasses import dataclass
from enum import Enum, StrEnum

_SLOTS = 12
"""Pieces of the window: what is forgotten is forgotten a piece at a time, so that its size does not depend on the traffic."""


class State(StrEnum):
    """Of a breaker."""

    CLOSED = "closed"
    OPEN = "open"
    HALF_OPEN = "half_open"


class Outcome(Enum):
    """What came of a request, as far as it says something about the pod."""

    GOOD = "good"
    SLOW = "slow"
    """The pod works, but this request waited too long."""
    BAD = "bad"
    UNKNOWN = "unknown"
    """The client left, or the pod was only busy."""


@dataclass(frozen=True)
class BreakerSettings:
    """When a breaker opens and closes."""

    window_seconds: float = 60.0
    min_requests: int = 5
    """Within the window, before their share counts."""
    max_bad_share: float = 0.5
    """It opens when this share of the requests, or more, failed or was slow."""
    slow_seconds: float = 10.0
    """A first event that takes longer counts as one that failed."""
    open_seconds: float = 5.0
    """The first rest. Each one that follows soon, because of what was bad, is twice as long."""
    max_open_seconds: float = 60.0
    probes: int = 2
    """Requests that may be under way while half open, and that must be good for it to close."""


@dataclass(frozen=True)
class Ticket:
    """A request that was let through."""

    era: int
    """Changes with each opening and closing: what began before says nothing about the pod after."""


class Breaker:
    """Of one pod. Times are seconds on one clock that never goes back."""

    def __init__(self, settings: BreakerSettings) -> None:
        self._settings = settings
        self._window = _Window(settings.window_seconds)
        self._era = 0
        self._open_until: float | None = None
        """None: closed."""
        self._rests = 0
        """That followed soon upon each other."""
        self._closed_at = float("-inf")
        self._probes_under_way = 0
        self._probes_good = 0
        self._bad_at = float("-inf")

    def state(self, now: float) -> State:
        """As it is now: a rest ends by itself."""
        if self._open_until is None:
            return State.CLOSED
        return State.OPEN if now < self._open_until else State.HALF_OPEN

    def lets_through(self, now: float) -> bool:
        """Whether a request may be sent."""
        match self.state(now):
            case State.CLOSED:
                return True
            case State.OPEN:
                return False
        return self._probes_under_way + self._probes_good < self._settings.probes

    def is_doubtful(self, now: float) -> bool:
        """Whether a request failed just now: not enough to open, reason enough to ask others first."""
        return now - self._bad_at < self._settings.open_seconds and self.state(now) == State.CLOSED

    def judge(self, first_event_seconds: float) -> Outcome:
        """Of a request whose first event came after so many seconds."""
        return Outcome.SLOW if first_event_seconds > self._settings.slow_seconds else Outcome.GOOD

    def start(self, now: float) -> Ticket | None:
        """A request is sent; `end` must follow. None: it does not count, because it was sent although the breaker lets none through."""
        if not self.lets_through(now):
            return None
        if self._open_until is not None:
            self._probes_under_way += 1
        return Ticket(self._era)

    def end(self, ticket: Ticket | None, outcome: Outcome, now: float) -> None:
        """What came of the request."""
        if ticket is None or ticket.era != self._era:
            return
        if self._open_until is not None:
            self._end_probe(outcome, now)
            return
        if outcome == Outcome.UNKNOWN:
            return
        is_good = outcome == Outcome.GOOD
        self._bad_at = float("-inf") if is_good else now
        requests, bad = self._window.add(not is_good, now)
        if is_good or requests < self._settings.min_requests:
            return
        if bad >= self._settings.max_bad_share * requests:
            soon = now - self._closed_at < self._settings.window_seconds
            self._open(now, rests=self._rests + 1 if soon and outcome == Outcome.BAD else 1)

    def _end_probe(self, outcome: Outcome, now: float) -> None:
        self._probes_under_way -= 1
        match outcome:
            case Outcome.BAD:
                self._open(now, rests=self._rests + 1)
            case Outcome.SLOW:
                self._open(now, rests=1)
            case Outcome.GOOD:
                self._probes_good += 1
                if self._probes_good >= self._settings.probes:
                    self._close(now)

    def _open(self, now: float, *, rests: int) -> None:
        self._rests = rests
        # Below 2**30 a float can hold it, and the bound was reached long before.
        rest = self._settings.open_seconds * 2.0 ** min(rests - 1, 30)
        self._open_until = now + min(rest, self._settings.max_open_seconds)
        self._start_over()

    def _close(self, now: float) -> None:
        self._open_until = None
        self._closed_at = now
        self._bad_at = float("-inf")
        self._start_over()

    def _start_over(self) -> None:
        self._era += 1
        self._probes_under_way = self._probes_good = 0
        self._window = _Window(self._settings.window_seconds)


class _Window:
    """Requests of the last seconds, and how many of them were bad."""

    def __init__(self, seconds: float) -> None:
        self._slot_seconds = seconds / _SLOTS
        self._slots: deque[tuple[int, int, int]] = deque(maxlen=_SLOTS)
        """Number of the slot, requests, bad ones."""

    def add(self, is_bad: bool, now: float) -> tuple[int, int]:
        """Count one in. Requests and bad ones of the window that ends now."""
        slot = int(now // self._slot_seconds)
        while self._slots and self._slots[0][0] <= slot - _SLOTS:
            self._slots.popleft()
        _, requests, bad = self._slots.pop() if self._slots and self._slots[-1][0] == slot else (slot, 0, 0)
        self._slots.append((slot, requests + 1, bad + is_bad))
        return sum(each[1] for each in self._slots), sum(each[2] for each in self._slots)
