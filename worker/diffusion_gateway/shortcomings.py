"""What makes an answer that nobody has seen yet AR's to give: pure, from what was read of it."""

from collections.abc import Sequence

from .reasons import Reason
from .tally import Tally


def shortcoming(rows: Sequence[Tally], *, refuses_unconverged: bool) -> Reason | None:
    """Why a diffusion arm's answer should not be sent, or None. One row per choice, each as far as it was read.

    An answer that is sent in one piece was read to its end, a stream up to the first text.
    """
    if any(row.finish is not None and row.first_text_at is None for row in rows):
        return Reason.EMPTY
    if any(row.finish and row.finish.degeneration and row.finish.degeneration.repeats for row in rows):
        return Reason.REPETITION
    if refuses_unconverged and any(2 * row.capped > len(row.canvas_steps) for row in rows):
        return Reason.UNCONVERGED
    return None
