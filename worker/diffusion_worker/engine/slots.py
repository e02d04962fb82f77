"""Which row holds which slot of the cache."""

from collections.abc import Iterable
from typing import Generic, Protocol, TypeVar

from diffusion_worker.engine.row import Row
from diffusion_worker.sizing.costs import PREFILL_CHUNK, PREFILL_ROWS


class Cache(Protocol):
    """What a cache of any kind of model has: slots, of which 0 … n-1 are in use."""

    def take_slot(self) -> int:
        """The next free slot."""

    def free_slot(self, slot: int) -> int | None:
        """Give a slot back; the last row may take its number: then its old one is returned."""


C = TypeVar("C", bound=Cache)


class Slots(Generic[C]):
    """Rows in the slots of a cache, without holes."""

    def __init__(self, cache: C) -> None:
        self.cache = cache
        self._rows: list[Row] = []  # at the index of their slot

    def take(self, row: Row) -> None:
        """Give a row the next slot."""
        row.slot = self.cache.take_slot()
        self._rows.append(row)

    def free(self, row: Row) -> int | None:
        """Take a row's slot back, if it has one; the last row may move into it: then the slot that it had is returned."""
        if row.slot is None:
            return None
        moved = self.cache.free_slot(row.slot)
        last = self._rows.pop()
        if last is not row:
            self._rows[row.slot] = last
            last.slot = row.slot
        row.slot = None
        return moved


def in_slot_order(rows: Iterable[Row]) -> list[Row]:
    """Rows as they lie in the cache, so that a pass over all of them needs no copy."""
    return sorted(rows, key=slot_of)


def slot_of(row: Row) -> int:
    """The row's slot; a row without one cannot take part in a pass."""
    if row.slot is None:
        raise RuntimeError(f"request {row.request_id} has no slot in the cache")
    return row.slot


def prefill_chunks(rows: Iterable[Row], *, step_tokens: int, padded: bool = False) -> list[tuple[Row, list[int]]]:
    """The tokens that enter the cache in this step, in the order of the slots.

    `step_tokens` are what a row that runs has in a step: a canvas, or 1. What is no longer goes in at once. Longer
    prompts go in chunks, those that came first before others: together as many tokens as the rows that run have, without
    those that they commit, or one chunk, so that they do not hold these up for long; `PREFILL_ROWS` chunks with no row to hold up. `padded`: the pass over
    the long ones is a rectangle, whose padding counts.
    """
    rows = list(rows)
    long = sorted((row for row in rows if len(row.pending) > step_tokens), key=lambda row: row.arrived)
    chunks = [(row, list(row.pending)) for row in rows if 0 < len(row.pending) <= step_tokens]
    left = (len(rows) - len(long)) * step_tokens - sum(len(chunk) for _, chunk in chunks)
    budget = max(PREFILL_CHUNK, left) if len(rows) > len(long) else PREFILL_CHUNK * PREFILL_ROWS
    taken, longest = 0, 0
    for count, row in enumerate(long, start=1):
        room = budget // count if padded else budget - taken
        if room < max(1, longest):
            break
        chunk = row.pending[: min(PREFILL_CHUNK, room)]
        taken += len(chunk)
        longest = max(longest, len(chunk)) if padded else 0
        chunks.append((row, chunk))
    return sorted(chunks, key=lambda each: slot_of(each[0]))
