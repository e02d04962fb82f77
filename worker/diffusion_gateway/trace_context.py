"""W3C trace context: which trace a request belongs to, from the client on to the worker's log lines."""

import re
import secrets
from dataclasses import dataclass

TRACEPARENT = "traceparent"
# A later version may have more behind the flags. Version ff is invalid, and so are ids of zeros alone.
_TRACEPARENT = re.compile(
    r"(?P<version>(?!ff)[0-9a-f]{2})-(?P<trace>(?!0{32})[0-9a-f]{32})-(?P<span>(?!0{16})[0-9a-f]{16})-(?P<flags>[0-9a-f]{2})(?P<more>-.*)?"
)


@dataclass(frozen=True)
class TraceContext:
    """Where a request stands in its trace."""

    trace_id: str
    """32 hex digits."""
    span_id: str
    """16 hex digits: our own span, which is the parent of the worker's."""
    parent_id: str | None
    """The client's span."""
    sampled: bool
    """Whether spans are sent."""

    @property
    def traceparent(self) -> str:
        """The header for whoever is asked next."""
        return f"00-{self.trace_id}-{self.span_id}-{'01' if self.sampled else '00'}"


def continue_trace(given: str | None, *, sample_new: bool) -> TraceContext:
    """The client's trace if it sent a valid `traceparent`, and a new one otherwise, which is sampled if `sample_new`."""
    span_id = new_span_id()
    found = _TRACEPARENT.fullmatch(given.strip()) if given else None
    if found is None or (found["version"] == "00" and found["more"]):
        return TraceContext(secrets.token_hex(16), span_id, parent_id=None, sampled=sample_new)
    sampled = bool(int(found["flags"], 16) & 1)
    return TraceContext(found["trace"], span_id, parent_id=found["span"], sampled=sampled)


def new_span_id() -> str:
    """16 hex digits, not all of them zero."""
    return f"{secrets.randbits(63) + 1:016x}"
