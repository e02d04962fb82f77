"""What can be wrong with what a plan is asked for."""


class SizingError(ValueError):
    """There is nothing to plan: a limit, dtype or number of GPUs that this model cannot have. Says what to write."""
