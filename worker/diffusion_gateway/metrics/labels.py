"""Names and values of labels. All of them are bounded."""

from bisect import bisect_left

from diffusion_operator.api.status import RouteArm

from ..routes import Model

# Not `namespace`: Prometheus gives every target that label, with the gateway's own, and would rename ours.
MODEL = ("model_namespace", "model")
ARM = (*MODEL, "arm", "revision", "kind")
PAIR = (*MODEL, "revision", "ar_revision")

_LONGEST = (32, 64, 128, 256, 512, 1024)
LENGTHS = (*(f"{low + 1}-{high}" for low, high in zip((0, *_LONGEST), _LONGEST, strict=False)), f"{_LONGEST[-1] + 1}+")
"""Ranges of output tokens: total times are comparable at equal length only."""


def length_range(tokens: int) -> str:
    """The range that a number of output tokens lies in; 0 counts as 1."""
    return LENGTHS[bisect_left(_LONGEST, tokens)]


def arm_labels(model: Model | None, arm: RouteArm | None) -> tuple[str, str, str, str, str]:
    """Values for model_namespace, model, arm, revision, kind."""
    names = (model.namespace, model.name) if model else ("", "")
    return (*names, arm.role.value, arm.revision, arm.kind.value) if arm else (*names, "", "", "")


def pair_labels(model: Model, *, revision: str, ar_revision: str) -> tuple[str, str, str, str]:
    """Values for model_namespace, model, revision, ar_revision."""
    return (model.namespace, model.name, revision, ar_revision)
