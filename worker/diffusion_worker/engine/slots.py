"""Which row holds which slot of the cache."""

from collections.abc import Iterable
from typing import Generic, Protocol, TypeVar

from diffusion_worker.engine.row import Row

PREFILL_CHUNK = 512  # tokens of one row in one pass; a longer prompt lets the others step in between


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


def prefill_chunks(rows: Iterable[Row], *, beside_tokens: int) -> list[tuple[Row, list[int]]]:
    """The next tokens of the rows whose prompts enter the cache in this step, those that came first before others.

    Beside a pass over `beside_tokens` canvas tokens, a pass over prompts takes as many, or one chunk: so it does not
    hold the canvases up for longer than their own pass. With nobody to hold up, every row gets a chunk.
    """
    budget = max(PREFILL_CHUNK, beside_tokens)
    chunks: list[tuple[Row, list[int]]] = []
    for row in sorted(rows, key=lambda row: row.arrived):
        chunk = row.pending[: PREFILL_CHUNK if not beside_tokens else min(PREFILL_CHUNK, budget)]
        if not chunk:
            break
        budget -= len(chunk)
        chunks.append((row, chunk))
    return sorted(chunks, key=lambda each: slot_of(each[0]))


def next_chunks(rows: Iterable[Row]) -> list[list[int]]:
    """The tokens of each row that enter the cache in its next pass."""
    return [row.pending[:PREFILL_CHUNK] for row in rows]
