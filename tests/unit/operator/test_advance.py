"""The rollout of a resource: from its spec, its annotations and what an earlier release wrote to weights."""

from dataclasses import replace
from typing import Any

from diffusion_operator.api import labels
from diffusion_operator.api.models import DiffusionModel, DiffusionModelStatus
from diffusion_operator.core.gates import Crashes

from tests.unit.operator.builders import a_model, after, ar, decide, diffusion, reason, seen, shares

HALF = {"rollout": {"initialPercent": 50}}
FULL = {"rollout": {"initialPercent": 100}}


def annotated(model: DiffusionModel, text: str, *, managed: bool = False) -> DiffusionModel:
    fields = {"f:metadata": {"f:annotations": {f"f:{labels.ROLLOUT_COMMAND}": {}}}}
    written: dict[str, Any] = {"manager": "kubectl-annotate", "time": "2026-01-01T12:00:00Z", "fieldsV1": fields}
    metadata = model.metadata.to_wire() | {
        "annotations": {labels.ROLLOUT_COMMAND: text},
        "managedFields": [written] if managed else [],
    }
    return model.model_copy(update={"metadata": type(model.metadata).model_validate(metadata)})


def climbing() -> tuple[DiffusionModel, list[str]]:
    model = a_model(**HALF)
    ready = [ar(model), diffusion(model)]
    return after(model, seen(ready)), ready


def test_what_the_first_release_promoted_stays_promoted() -> None:
    model = a_model()
    ready = [ar(model), diffusion(model)]
    promoted = after(a_model(**FULL), seen(ready)).status.to_wire()
    # As the first release wrote it.
    promoted["rollout"] = {
        "stableRevision": diffusion(model),
        "fallbackRevision": ar(model),
        "canaryPercent": 0,
        "diffusionPercent": 100,
    }
    upgraded = after(a_model(DiffusionModelStatus.model_validate(promoted)), seen(ready))
    assert shares(upgraded) == [("stable", diffusion(model), 100), ("fallback", ar(model), 0)]
    assert upgraded.status.rollout.phase == "Promoted"
    assert upgraded.status.routes.generation == promoted["routes"]["generation"]


def test_what_the_first_release_had_as_canary_keeps_its_share() -> None:
    model, ready = climbing()
    written = model.status.to_wire()
    written["rollout"] = {
        "canaryRevision": diffusion(model),
        "fallbackRevision": ar(model),
        "canaryPercent": 50,
        "diffusionPercent": 50,
    }
    upgraded = after(model.model_copy(update={"status": DiffusionModelStatus.model_validate(written)}), seen(ready))
    assert shares(upgraded) == shares(model)


def test_the_revisions_are_named_as_the_first_release_named_them() -> None:
    model, _ = climbing()
    wire = model.status.to_wire()["rollout"]
    assert (wire["canaryRevision"], wire["fallbackRevision"]) == (diffusion(model), ar(model))
    assert (wire["canaryPercent"], wire["diffusionPercent"], wire["step"]) == (50, 50, "1/11")


def test_100_percent_in_the_middle_of_a_rollout_promotes_at_once() -> None:
    model, ready = climbing()
    model = after(model, seen(ready), **FULL)
    assert shares(model) == [("stable", diffusion(model), 100), ("fallback", ar(model), 0)]


def test_a_command_is_done_once_and_its_event_says_who_asked() -> None:
    model, ready = climbing()
    asked = annotated(model, "abort:1", managed=True)
    decision = decide(asked, seen(ready))
    (event,) = [event for event in decision.events if event.reason == "RolledBack"]
    assert "kubectl-annotate at 2026-01-01T12:00:00Z" in event.message
    asked = asked.model_copy(update={"status": decision.status})
    assert shares(asked) == [("stable", ar(model), 100), ("fallback", ar(model), 0)]
    assert reason(asked, "Progressing") == ("False", "RolledBack")
    assert asked.status.phase == "Degraded"
    assert decide(asked, seen(ready)).events == ()


def test_a_word_that_is_no_command_is_refused_once() -> None:
    model, ready = climbing()
    model = after(model, seen(ready))
    asked = annotated(model, "rollback:1")
    decision = decide(asked, seen(ready))
    assert [(event.reason, event.is_warning) for event in decision.events] == [("CommandRefused", True)]
    assert "write pause, resume, promote" in decision.events[0].message
    asked = asked.model_copy(update={"status": decision.status})
    assert decide(asked, seen(ready)).events == ()
    assert shares(asked) == shares(model)


def test_a_revision_that_crashes_is_rolled_back_without_metrics() -> None:
    model, ready = climbing()
    crashed = replace(seen(ready), crashes={diffusion(model): Crashes(2)})
    model = after(model, crashed)
    assert shares(model) == [("stable", ar(model), 100), ("fallback", ar(model), 0)]
    assert shares(after(model, seen(ready))) == shares(model)


def test_a_promoted_revision_that_crashes_gives_way_to_ar() -> None:
    model = a_model(**FULL)
    ready = [ar(model), diffusion(model)]
    model = after(model, seen(ready))
    model = after(model, replace(seen(ready), crashes={diffusion(model): Crashes(2)}))
    assert shares(model) == [("stable", ar(model), 100), ("fallback", ar(model), 0)]


def test_a_revision_that_crashes_serves_on_while_ar_is_down() -> None:
    model, ready = climbing()
    down = replace(seen([diffusion(model)]), crashes={diffusion(model): Crashes(2)})
    blocked = after(model, down)
    assert shares(blocked) == shares(model)
    assert reason(blocked, "Progressing") == ("False", "FallbackUnavailable")
    assert blocked.status.phase == "Degraded"
    assert shares(after(blocked, seen(ready))) == [("stable", ar(model), 100), ("fallback", ar(model), 0)]


def test_pods_that_replace_serving_ones_and_do_not_start_are_told() -> None:
    model = a_model(**FULL)
    ready = [ar(model), diffusion(model)]
    model = after(model, seen(ready))
    observed = seen(ready)
    pods = dict(observed.pods)
    pods[diffusion(model)] = replace(pods[diffusion(model)], stuck=True, waiting_for="ErrImagePull (not found)")
    assert reason(after(model, replace(observed, pods=pods)), "Progressing") == ("False", "PodsNotStarting")
