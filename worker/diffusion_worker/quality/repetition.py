"""Repetition within a window, and distinct pairs of neighbours: docs/quality.md has the definition in words and its calibration."""

from collections.abc import Sequence
from itertools import groupby, pairwise

from diffusion_worker.wire import Degeneration

DEFAULT_WINDOW = 32
"""Tokens, as the user's gate has it."""
PHRASE = 5
"""Tokens. Shorter phrases come back in any text."""
LIMIT = 0.9
"""Share of repeated tokens in the worst window from which an answer repeats itself. A loop reaches 1."""


def degeneration(token_ids: Sequence[int], *, window: int = DEFAULT_WINDOW) -> Degeneration | None:
    """How much an answer repeats itself. None: it is shorter than the window.

    Raises:
        ValueError: `window` is below 2.
    """
    if window < 2:
        raise ValueError(f"the window is {window} tokens; a repetition takes at least 2")
    if len(token_ids) < window:
        return None
    worst = _worst_window(_repeated(_without_short_runs(token_ids, window=window), window=window), window=window)
    distinct = len(set(pairwise(token_ids)))
    return Degeneration(repetition=worst, repeats=worst >= LIMIT, distinct_2=distinct / (len(token_ids) - 1))


def _without_short_runs(token_ids: Sequence[int], *, window: int) -> list[int]:
    """One token for each run of equal ones that is shorter than the window: indentation and ruled lines are not repetition."""
    kept: list[int] = []
    for token_id, run in groupby(token_ids):
        length = sum(1 for _ in run)
        kept += [token_id] * (length if length >= window else 1)
    return kept


def _repeated(token_ids: Sequence[int], *, window: int) -> list[bool]:
    """Which tokens end a phrase that ended at most `window` tokens before, too."""
    size = min(PHRASE, window)
    last_end: dict[tuple[int, ...], int] = {}
    repeated = [False] * len(token_ids)
    for end in range(size, len(token_ids) + 1):
        phrase = tuple(token_ids[end - size : end])
        repeated[end - 1] = phrase in last_end and end - last_end[phrase] <= window
        last_end[phrase] = end
    return repeated


def _worst_window(repeated: Sequence[bool], *, window: int) -> float:
    """The highest share of repeated tokens in any window, which may be longer than the text without its runs."""
    count = worst = sum(repeated[:window])
    for entering, leaving in zip(repeated[window:], repeated, strict=False):
        count += entering - leaving
        worst = max(worst, count)
    return worst / window
