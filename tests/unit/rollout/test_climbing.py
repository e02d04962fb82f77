"""A revision on its way up."""

from diffusion_operator.core.rollout import RolloutPhase

from .builders import FEW, GOOD, LOOK, NO_DATA, STEP, Rollout, observed, promoted


def test_a_good_revision_climbs_to_the_top_and_is_promoted() -> None:
    rollout, seen = Rollout(), []
    for _ in range(60):
        rollout.look()
        seen.append(rollout.weights().get("new", 0))
    assert list(dict.fromkeys(seen)) == [40, 70, 100]
    assert rollout.state.phase is RolloutPhase.PROMOTED
    assert [change.reason for change in rollout.state.history] == ["Started", "GatesPass", "GatesPass", "GatesPass"]


def test_the_default_ladder_has_twenty_steps_of_a_day() -> None:
    from diffusion_operator.core.rollout import Policy

    assert Policy().ladder == tuple(range(5, 101, 5))
    assert Policy().step_seconds == 86_400


def test_a_ladder_ends_at_100_whatever_its_steps() -> None:
    from diffusion_operator.core.rollout import Policy

    assert Policy(initial_percent=5, step_percent=40).ladder == (5, 45, 85, 100)
    assert Policy(initial_percent=100).ladder == (100,)
    assert Policy(initial_percent=5, step_percent=40).next_percent(7) == 45, "after a change of the ladder"


def test_no_step_before_the_whole_observed_time() -> None:
    rollout = observed().looks(STEP - LOOK)
    assert rollout.weights() == {"new": 40}
    assert rollout.looks(2 * LOOK).weights() == {"new": 70}


def test_a_first_weight_waits_for_pods_and_for_the_arm_that_serves_the_rest() -> None:
    rollout = Rollout(ready={"ar": 1, "new": 0})
    rollout.look()
    assert rollout.state.phase is RolloutPhase.WAITING
    assert "ready pod of new" in rollout.state.message
    rollout.ready = {"ar": 0, "new": 1}
    rollout.look()
    assert "ready pod of ar" in rollout.state.message
    rollout.ready = {"ar": 1, "new": 1}
    assert rollout.looks(LOOK).weights() == {"new": 40}


def test_time_counts_only_once_gateways_have_the_weight_in_force() -> None:
    rollout = Rollout(in_force=True)
    rollout.look()
    rollout.in_force = False
    rollout.looks(10 * STEP)
    assert rollout.state.canary is not None
    assert rollout.state.canary.started_at is None
    assert rollout.weights() == {"new": 40}


def test_an_outage_of_metrics_holds_and_its_time_does_not_count() -> None:
    rollout = observed().looks(STEP / 2)
    rollout.data = NO_DATA
    rollout.looks(STEP)
    assert rollout.state.phase is RolloutPhase.HELD
    assert "RolloutHeld" in rollout.reasons
    rollout.data = GOOD
    rollout.looks(STEP / 2 - LOOK)
    assert rollout.weights() == {"new": 40}
    assert rollout.looks(3 * LOOK).weights() == {"new": 70}


def test_metrics_that_fail_now_and_then_slow_a_step_and_do_not_stop_it() -> None:
    rollout = observed()
    for number in range(60):
        rollout.data = NO_DATA if number % 5 == 4 else GOOD
        rollout.look()
    assert rollout.weights() != {"new": 40}


def test_time_without_an_operator_does_not_count() -> None:
    rollout = observed().looks(STEP - 2 * LOOK)
    rollout.restart()
    rollout.look(24 * 3600)
    assert rollout.weights() == {"new": 40}
    rollout.looks(LOOK)
    assert rollout.weights() == {"new": 40}
    assert rollout.looks(STEP).weights() == {"new": 70}, "and what was written down is not lost"


def test_a_frozen_process_did_not_look_either() -> None:
    rollout = observed()
    rollout.look(10 * STEP)
    assert rollout.weights() == {"new": 40}


def test_few_samples_hold_a_step_until_there_are_enough() -> None:
    rollout = observed()
    rollout.data = FEW
    rollout.looks(2 * STEP)
    assert rollout.state.phase is RolloutPhase.HELD
    assert "200 are needed" in rollout.state.message
    rollout.data = GOOD
    rollout.look()
    assert rollout.weights() == {"new": 70}


def test_a_person_without_stable_and_ar_gets_the_first_revision_at_once() -> None:
    rollout = Rollout(ar=None)
    rollout.look()
    assert rollout.state.phase is RolloutPhase.PROMOTED
    assert rollout.weights() == {"new": 100}


def test_initial_percent_100_promotes_as_soon_as_all_pods_are_there() -> None:
    rollout = Rollout(ready={"ar": 1, "new": 0})
    rollout.set(initial_percent=100)
    rollout.look()
    assert rollout.weights() == {}
    rollout.ready["new"] = 1
    assert rollout.looks(LOOK).weights() == {"new": 100}


def test_the_stable_revision_serves_while_the_next_one_climbs() -> None:
    rollout = promoted()
    rollout.revision = "next"
    rollout.looks(LOOK)
    assert rollout.weights() == {"new": 60, "next": 40}


def test_a_new_spec_takes_the_canarys_weight_away_before_anything_starts() -> None:
    rollout = observed()
    rollout.revision = "next"
    rollout.look()
    assert rollout.weights() == {}
    rollout.in_force = False
    rollout.looks(STEP)
    assert rollout.weights() == {}, "not while a gateway may still send requests to the old one"
    rollout.in_force = True
    assert rollout.looks(LOOK).weights() == {"next": 40}


def test_back_to_the_stable_revision_needs_no_new_rollout() -> None:
    rollout = promoted()
    rollout.revision = "next"
    rollout.looks(STEP)
    rollout.revision = "new"
    rollout.look()
    assert rollout.weights() == {"new": 100}
    assert rollout.state.phase is RolloutPhase.PROMOTED


def test_without_an_ar_arm_that_is_ready_time_does_not_count() -> None:
    rollout = observed()
    rollout.ready["ar"] = 0
    rollout.looks(2 * STEP)
    assert rollout.weights() == {"new": 40}
    assert rollout.state.phase is RolloutPhase.HELD
    assert "no ready pod of ar" in rollout.state.message


def test_another_ar_model_starts_the_comparison_anew() -> None:
    rollout = observed().looks(STEP + LOOK)
    assert rollout.state.canary is not None
    assert rollout.state.canary.earlier_repetition.count > 0
    rollout.ready["ar2"] = 1
    rollout.ar = "ar2"
    rollout.look()
    assert rollout.state.canary.earlier_repetition.count == 0
    assert rollout.weights() == {"new": 70}


def test_quality_is_taken_along_to_the_next_step() -> None:
    rollout = observed().looks(STEP + LOOK)
    assert rollout.state.canary is not None
    assert rollout.state.canary.earlier_repetition.count == 2000
    assert rollout.state.canary.earlier_repetition.events == 40
