"""Who gets which share, and when."""

import pytest

from tests.unit.operator.builders import a_model, after, ar, diffusion, reason, revisions, seen, shares

FULL = {"rollout": {"initialPercent": 100}}


def test_nothing_is_routed_before_anything_was_ready() -> None:
    assert shares(after(a_model(), seen())) == []


def test_ar_serves_all_until_diffusion_is_ready() -> None:
    model = a_model()
    assert shares(after(model, seen([ar(model)]))) == [("stable", ar(model), 100), ("fallback", ar(model), 0)]


def test_a_ready_revision_gets_its_initial_percent_beside_ar() -> None:
    model = a_model(rollout={"initialPercent": 20})
    assert shares(after(model, seen([ar(model), diffusion(model)]))) == [
        ("stable", ar(model), 80),
        ("canary", diffusion(model), 20),
        ("fallback", ar(model), 0),
    ]


def test_the_initial_percent_is_5_when_spec_says_nothing() -> None:
    model = a_model()
    assert ("canary", diffusion(model), 5) in shares(after(model, seen([ar(model), diffusion(model)])))


def test_100_percent_promotes_at_once() -> None:
    model = a_model(**FULL)
    promoted = after(model, seen([ar(model), diffusion(model)]))
    assert shares(promoted) == [("stable", diffusion(model), 100), ("fallback", ar(model), 0)]
    assert promoted.status.rollout.stable_revision == diffusion(model)


def test_100_percent_does_not_wait_for_ar() -> None:
    model = a_model(**FULL)
    assert shares(after(model, seen([diffusion(model)]))) == [("stable", diffusion(model), 100)]


def test_a_canary_waits_for_an_ar_that_was_never_ready() -> None:
    model = after(a_model(), seen([diffusion(a_model())]))
    assert shares(model) == []
    assert reason(model, "Progressing") == ("True", "WaitingForStable")


def test_pods_that_blink_do_not_move_weights() -> None:
    model = a_model(rollout={"initialPercent": 20})
    serving = after(model, seen([ar(model), diffusion(model)]))
    blinking = after(serving, seen([ar(model)]))
    assert shares(blinking) == shares(serving)
    assert blinking.status.routes.generation == serving.status.routes.generation
    assert blinking.status.phase == "Degraded"


def test_a_later_revision_climbs_beside_the_promoted_one() -> None:
    old = a_model(**FULL)
    model = after(old, seen([ar(old), diffusion(old)]))
    new = a_model(rollout={"initialPercent": 10}, sampler={"maxDenoisingSteps": 9})
    changed = after(model, seen([ar(old), diffusion(old)]), **new.spec.to_wire())
    assert shares(changed) == [("stable", diffusion(old), 100), ("fallback", ar(old), 0)]
    climbing = after(changed, seen([ar(old), diffusion(old), diffusion(new)]))
    assert shares(climbing) == [
        ("stable", diffusion(old), 90),
        ("canary", diffusion(new), 10),
        ("fallback", ar(old), 0),
    ]
    assert climbing.status.rollout.diffusion_percent == 100


def test_what_takes_over_everything_has_all_its_pods_first() -> None:
    old = a_model(replicas=3, **FULL)
    model = after(old, seen([ar(old), diffusion(old)], pods=3))
    new = a_model(replicas=3, sampler={"maxDenoisingSteps": 9}, **FULL)
    changed = after(model, seen([ar(old), diffusion(old), diffusion(new)], pods=1), **new.spec.to_wire())
    assert shares(changed)[0] == ("stable", diffusion(old), 100)
    changed = after(changed, seen([ar(old), diffusion(old), diffusion(new)], pods=3))
    assert shares(changed)[0] == ("stable", diffusion(new), 100)


def test_a_new_spec_during_a_canary_takes_the_canary_out() -> None:
    first = a_model(rollout={"initialPercent": 20})
    model = after(first, seen([ar(first), diffusion(first)]))
    second = a_model(rollout={"initialPercent": 20}, sampler={"maxDenoisingSteps": 9})
    changed = after(model, seen([ar(first), diffusion(first)]), **second.spec.to_wire())
    assert shares(changed) == [("stable", ar(first), 100), ("fallback", ar(first), 0)]


def test_going_back_to_the_promoted_spec_withdraws_the_canary() -> None:
    old = a_model(**FULL)
    model = after(old, seen([ar(old), diffusion(old)]))
    new = a_model(rollout={"initialPercent": 10}, sampler={"maxDenoisingSteps": 9})
    model = after(model, seen([ar(old), diffusion(old), diffusion(new)]), **new.spec.to_wire())
    back = after(model, seen([ar(old), diffusion(old), diffusion(new)]), **old.spec.to_wire())
    assert shares(back) == [("stable", diffusion(old), 100), ("fallback", ar(old), 0)]


def test_a_new_ar_revision_takes_over_when_it_has_all_pods() -> None:
    old = a_model(**FULL)
    model = after(old, seen([ar(old), diffusion(old)]))
    new = a_model(fallback={"model": {"source": "file:///models/other-ar"}}, **FULL)
    changed = after(model, seen([ar(old), diffusion(old)]), **new.spec.to_wire())
    assert ("fallback", ar(old), 0) in shares(changed)
    changed = after(changed, seen([ar(old), ar(new), diffusion(old)]))
    assert ("fallback", ar(new), 0) in shares(changed)


@pytest.mark.parametrize("percent", [5, 100])
def test_a_paused_rollout_starts_no_canary(percent: int) -> None:
    model = a_model(rollout={"initialPercent": percent, "paused": True})
    held = after(model, seen([ar(model), diffusion(model)]))
    assert shares(held) == [("stable", ar(model), 100), ("fallback", ar(model), 0)]
    assert reason(held, "Progressing") == ("False", "Paused")


def test_a_paused_rollout_keeps_the_share_it_has() -> None:
    model = a_model(rollout={"initialPercent": 20})
    climbing = after(model, seen([ar(model), diffusion(model)]))
    held = after(climbing, seen([ar(model), diffusion(model)]), rollout={"initialPercent": 50, "paused": True})
    assert shares(held) == shares(climbing)
    assert reason(held, "Progressing") == ("False", "Paused")


def test_the_generation_rises_by_one_with_each_change() -> None:
    model = a_model(rollout={"initialPercent": 20})
    ready = [ar(model), diffusion(model)]
    generations = []
    for observation in (seen(), seen([ar(model)]), seen([ar(model)]), seen(ready)):
        model = after(model, observation)
        generations.append(model.status.routes.generation)
    assert generations == [0, 1, 1, 2]


def test_arms_name_the_service_of_their_revision() -> None:
    model = a_model(**FULL)
    arm = after(model, seen([diffusion(model)])).status.routes.arms[0]
    assert (arm.service, arm.port) == (f"storyteller-{revisions(model).diffusion.hash}", 8001)
