"""Repetition within a window, and distinct pairs of neighbours: definition and calibration in docs/quality.md."""

from collections.abc import Sequence
from itertools import pairwise

from diffusion_worker.wire import Degeneration

DEFAULT_WINDOW = 32
"""Tokens, as the user's gate has it."""
PHRASE = 4
"""A token repeats when it ends a phrase of this many tokens that the window before it has already: shorter ones come back in any text."""
LIMIT = 0.75
"""Share of repeated tokens in the worst window from which an answer counts as repeating."""


def degeneration(token_ids: Sequence[int], *, window: int = DEFAULT_WINDOW) -> Degeneration | None:
    """How much an answer repeats itself. None: it is shorter than the window.

    Raises:
        ValueError: `window` is below 2.
    """
    if window < 2:
        raise ValueError(f"the window is {window} tokens; a repetition takes at least 2")
    if len(token_ids) < window:
        return None
    worst = _worst_window(_repeated(token_ids, window=window), window=window)
    pairs = len(token_ids) - 1
    distinct = len(set(pairwise(token_ids)))
    return Degeneration(repetition=worst, repeats=worst >= LIMIT, distinct_2=distinct / pairs)


def _repeated(token_ids: Sequence[int], *, window: int) -> list[bool]:
    """Which tokens end a phrase that ended at most `window` tokens before, too."""
    last_end: dict[tuple[int, ...], int] = {}
    repeated = [False] * len(token_ids)
    for end in range(PHRASE, len(token_ids) + 1):
        phrase = tuple(token_ids[end - PHRASE : end])
        before = last_end.get(phrase)
        repeated[end - 1] = before is not None and end - before <= window
        last_end[phrase] = end
    return repeated


def _worst_window(repeated: Sequence[bool], *, window: int) -> float:
    count = worst = sum(repeated[:window])
    for end in range(window, len(repeated)):
        count += repeated[end] - repeated[end - window]
        worst = max(worst, count)
    return worst / window
