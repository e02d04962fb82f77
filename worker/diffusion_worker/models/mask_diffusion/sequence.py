"""What a mask model reads."""

from dataclasses import dataclass


@dataclass(frozen=True)
class MaskedSequence:
    """A row's tokens: prompt and committed text, the block that is denoised now, and the masks that follow it."""

    token_ids: list[int]
    start: int  # of the block
    end: int
