"""Conditions and phase."""

import pytest
from diffusion_operator.api.conditions import ConditionType
from diffusion_operator.api.models import DiffusionModel, StatusOnly
from diffusion_operator.core.observation import Observation, ObservedPods
from diffusion_operator.core.step import refuse

from tests.unit.operator.builders import NOW, a_model, after, ar, decide, diffusion, reason, seen

FULL = {"rollout": {"initialPercent": 100}}
MODEL = a_model(**FULL)
READY = seen([ar(MODEL), diffusion(MODEL)])


def test_every_condition_is_there_from_the_first_write() -> None:
    first = decide(MODEL, seen()).status
    assert [c.type for c in first.conditions] == list(ConditionType)
    assert {c.observed_generation for c in first.conditions} == {first.observed_generation} == {1}


@pytest.mark.parametrize(
    ("observations", "phase", "ready", "progressing"),
    [
        ((seen(),), "Pending", ("False", "NoReadyPod"), ("True", "RevisionStarting")),
        ((seen([ar(MODEL)]),), "Progressing", ("True", "Serving"), ("True", "RevisionStarting")),
        ((READY,), "Serving", ("True", "Serving"), ("False", "Settled")),
        ((READY, seen([ar(MODEL)])), "Degraded", ("True", "Serving"), ("True", "ArmDown")),
        ((READY, seen([diffusion(MODEL)])), "Degraded", ("True", "Serving"), ("True", "ArmDown")),
        ((READY, seen()), "Pending", ("False", "NoReadyPod"), ("True", "ArmDown")),
        ((seen(rejected="quota"),), "Failed", ("False", "NoReadyPod"), ("False", "ChildRejected")),
        (
            (READY, seen([ar(MODEL), diffusion(MODEL)], rejected="quota")),
            "Degraded",
            ("True", "Serving"),
            ("False", "ChildRejected"),
        ),
    ],
    ids=[
        "nothing is ready",
        "AR is ready",
        "both are ready",
        "the promoted revision is down",
        "the fallback is down",
        "all are down",
        "a child is refused at the start",
        "a child is refused later",
    ],
)
def test_the_state_in_one_word_and_by_aspect(
    observations: tuple[Observation, ...], phase: str, ready: tuple[str, str], progressing: tuple[str, str]
) -> None:
    model = after(MODEL, *observations)
    assert model.status.phase == phase
    assert (reason(model, "Ready"), reason(model, "Progressing")) == (ready, progressing)


def test_a_long_canary_is_ready() -> None:
    model = a_model(rollout={"initialPercent": 5})
    climbing = after(model, seen([ar(model), diffusion(model)]))
    assert reason(climbing, "Ready") == ("True", "Serving")
    assert reason(climbing, "Progressing") == ("True", "CanaryServing")


def test_pods_that_never_start_are_told_with_their_cause() -> None:
    stuck = ObservedPods(stuck=True, waiting_for="ErrImagePull (not found)")
    model = after(MODEL, Observation(pods={diffusion(MODEL): stuck, ar(MODEL): ObservedPods(ready=1)}))
    assert reason(model, "Progressing") == ("False", "PodsNotStarting")
    message = next(c.message for c in model.status.conditions if c.type == "Progressing")
    assert "has 0 of 1 pods ready: ErrImagePull (not found)." in message


def test_a_refusal_in_many_words_is_cut_to_what_the_api_server_takes() -> None:
    told = after(MODEL, seen(rejected="denied by the admission webhook: " + "because " * 1000))
    assert reason(told, "Progressing") == ("False", "ChildRejected")
    message = next(c.message for c in told.status.conditions if c.type == "Progressing")
    assert message.startswith("denied by the admission webhook")
    assert len(message) == 4096


def test_the_time_of_transition_moves_with_the_status_only() -> None:
    def ready_since(model: DiffusionModel) -> object:
        return next(c.last_transition_time for c in model.status.conditions if c.type == "Ready")

    early = after(MODEL, seen())
    old = [c.model_copy(update={"last_transition_time": NOW.replace(year=2000)}) for c in early.status.conditions]
    earlier = early.model_copy(update={"status": early.status.model_copy(update={"conditions": old})})
    assert ready_since(after(earlier, seen())) == NOW.replace(year=2000)
    assert ready_since(after(earlier, READY)) == NOW


def test_a_spec_that_cannot_be_read_is_told_and_what_serves_goes_on() -> None:
    serving = after(MODEL, READY)
    resource = StatusOnly(metadata=serving.metadata.model_copy(update={"generation": 2}), status=serving.status)
    refused = refuse(resource, "spec.model: Field required", now=NOW).status
    model = serving.model_copy(update={"status": refused})
    assert (refused.routes, refused.revisions) == (serving.status.routes, serving.status.revisions)
    assert reason(model, "Ready") == ("True", "Serving")
    assert reason(model, "Progressing") == ("False", "SpecInvalid")
    assert {c.observed_generation for c in refused.conditions} == {2}
    assert refused.phase == "Degraded"


def test_each_change_is_an_event_once() -> None:
    first = decide(after(MODEL, seen()), READY)
    assert {event.reason for event in first.events} >= {"RoutesChanged", "Serving", "Settled"}
    assert decide(after(MODEL, seen(), READY), READY).events == ()
