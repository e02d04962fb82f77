"""What makes an answer that nobody has seen yet AR's to give: pure, from what was read of it."""

from collections.abc import Sequence

from .reasons import Reason
from .tally import Tally


def shortcoming(rows: Sequence[Tally], *, refuses_unconverged: bool, has_stop_strings: bool) -> Reason | None:
    """Why a diffusion arm's answer should not be sent, or None. One row per choice, each as far as it was read.

    An answer that is sent in one piece was read to its end, a stream up to the first text.
    """
    if any(_is_empty(row, has_stop_strings=has_stop_strings) for row in rows):
        return Reason.EMPTY
    if any(row.finish and row.finish.degeneration and row.finish.degeneration.repeats for row in rows):
        return Reason.REPETITION
    if refuses_unconverged and any(2 * row.capped > len(row.canvas_steps) for row in rows):
        return Reason.UNCONVERGED
    return None


def _is_empty(row: Tally, *, has_stop_strings: bool) -> bool:
    """A stop string at the very beginning leaves nothing of an answer, as the client wanted it. Its tokens count all the same."""
    if row.finish is None or row.first_text_at is not None:
        return False
    is_stopped = has_stop_strings and row.finish.reason == "stop" and row.finish.completion_tokens > 0
    return not is_stopped
