"""When a canvas may be committed before its last step (transformers' `StableAndConfidentStoppingCriteria`)."""


def is_stable(unchanged_steps: int, stability_threshold: int) -> bool:
    """Whether the most likely canvas has been the same for long enough.

    `unchanged_steps` counts the last steps, this one included, whose most likely canvas equals that of the step before.
    """
    return unchanged_steps >= stability_threshold


def is_confident(mean_entropy: float, confidence_threshold: float) -> bool:
    """Whether the canvas is certain enough to stop, by the mean entropy over all its positions."""
    return mean_entropy < confidence_threshold
