"""When a canvas in work is shown: seldom enough that drafts cost little, however many steps it takes."""

MOST_PER_CANVAS = 8


def is_due(step: int, *, planned_steps: int) -> bool:
    """Whether a canvas that has had `step` of its steps is shown; evenly spaced, at most `MOST_PER_CANVAS` times."""
    every = -(-planned_steps // MOST_PER_CANVAS)
    return step % every == 0
