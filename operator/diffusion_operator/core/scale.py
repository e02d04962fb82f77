"""What autoscalers read of a resource: how many pods carry its load, and by which labels they are found."""

from collections.abc import Collection
from dataclasses import dataclass

from diffusion_operator.api.models import RolloutState

from .names import selector
from .observation import NO_PODS, Observation
from .revision import Wanted


@dataclass(frozen=True, slots=True)
class Scale:
    """The answer to the scale subresource."""

    replicas: int
    selector: str


def scale(
    rollout: RolloutState, wanted: Wanted, *, model: str, observation: Observation, endpoints: Collection[str] = ()
) -> Scale:
    """Pods of the revision that most requests go to, and their labels.

    Of one revision: an autoscaler multiplies what a pod has to do by the pods that it finds, and each revision has
    `spec.replicas` of its own. `endpoints` are the hashes of servers that are not ours.
    """
    # A server that is not ours has no pods to make more of.
    own = wanted.ar or wanted.diffusion
    busiest = _busiest(rollout)
    revision = own.hash if busiest is None or busiest in endpoints else busiest
    return Scale(
        replicas=observation.pods.get(revision, NO_PODS).pods,
        selector=",".join(f"{label}={value}" for label, value in selector(model, revision).items()),
    )


def _busiest(rollout: RolloutState) -> str | None:
    canary = rollout.canary_revision if rollout.canary_percent > 50 else None
    return canary or rollout.stable_revision or rollout.fallback_revision
