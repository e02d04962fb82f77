"""Rows that run only while nobody else wants their slot."""

from collections.abc import Collection, Sequence

from diffusion_worker.engine.row import Row
from diffusion_worker.wire import BlockEvent


def has_room(rows: Collection[Row], *, slots: int) -> bool:
    """Whether a background row may join `rows`, which run or wait for a slot: one is free, and nobody waits for it."""
    return len(rows) < slots


def in_the_way(rows: Sequence[Row], *, slots: int) -> list[Row]:
    """Background rows that must go so that no row a client waits for is kept from a slot; least work is lost."""
    background = sorted((row for row in rows if row.background), key=lambda row: row.steps)
    return background[: max(0, len(rows) - slots)]


def joined(blocks: Sequence[BlockEvent]) -> BlockEvent:
    """Blocks as one: nobody reads a background answer as it comes, and each event costs the gateway as much as a client's."""
    logprobs = [token for block in blocks for token in block.logprobs or ()]
    return BlockEvent(
        index=0,
        text="".join(block.text for block in blocks),
        tokens=sum(block.tokens for block in blocks),
        steps=sum(block.steps for block in blocks),
        converged=all(block.converged for block in blocks),
        logprobs=logprobs if blocks[0].logprobs is not None else None,
    )
