"""What autoscalers read."""

from diffusion_operator.api.models import RolloutState
from diffusion_operator.core.observation import Observation, ObservedPods
from diffusion_operator.core.scale import scale

from tests.unit.operator.builders import a_model, revisions

WANTED = revisions(a_model())
SEEN = Observation(pods={"stable01": ObservedPods(ready=1, pods=3), "canary01": ObservedPods(ready=1, pods=2)})


def answer(**rollout: object) -> tuple[int, str]:
    found = scale(RolloutState.model_validate(rollout), WANTED, model="m", observation=SEEN)
    return found.replicas, found.selector.rpartition("=")[2]


def test_the_revision_that_most_requests_go_to_counts() -> None:
    arms = {"stableRevision": "stable01", "canaryRevision": "canary01", "fallbackRevision": "ar000001"}
    assert answer(**arms, canaryPercent=5) == (3, "stable01")
    assert answer(**arms, canaryPercent=50) == (3, "stable01")
    assert answer(**arms, canaryPercent=80) == (2, "canary01")


def test_without_a_stable_revision_it_is_the_ar_model() -> None:
    assert answer(fallbackRevision="ar000001") == (0, "ar000001")
    assert WANTED.ar is not None
    assert answer() == (0, WANTED.ar.hash)


def test_the_selector_is_of_one_model_s_pods() -> None:
    found = scale(RolloutState(stable_revision="stable01"), WANTED, model="m", observation=SEEN)
    assert found.selector == ("serving.diffusion-operator.dev/model=m,serving.diffusion-operator.dev/revision=stable01")
