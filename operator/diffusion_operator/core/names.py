"""Names of what the operator makes."""

from diffusion_operator.api import labels
from diffusion_operator.api.models import ArmKind


def child_name(model: str, revision: str) -> str:
    """Name of a revision's Deployment, Service and ConfigMap."""
    return f"{model}-{revision}"


def selector(model: str, revision: str) -> dict[str, str]:
    """Labels by which a revision's Service and Deployment find its pods."""
    return {labels.MODEL: model, labels.REVISION: revision}


def child_labels(model: str, revision: str, *, kind: ArmKind) -> dict[str, str]:
    """Labels of a revision's objects and pods."""
    return {
        labels.MANAGED_BY: labels.MANAGED_BY_VALUE,
        labels.APP_NAME: labels.APP_NAME_VALUE,
        labels.ARM_KIND: kind.value,
        **selector(model, revision),
    }
