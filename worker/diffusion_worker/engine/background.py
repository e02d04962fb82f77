"""Rows that run only while nobody else wants their slot."""

from collections.abc import Collection, Sequence

from diffusion_worker.engine.row import Row


def has_room(rows: Collection[Row], *, slots: int) -> bool:
    """Whether a background row may join `rows`, which run or wait for a slot: one is free, and nobody waits for it."""
    return len(rows) < slots


def in_the_way(rows: Sequence[Row], *, slots: int) -> list[Row]:
    """Background rows that must go so that no row a client waits for is kept from a slot; least work is lost."""
    background = sorted((row for row in rows if row.background), key=lambda row: row.steps)
    return background[: max(0, len(rows) - slots)]
