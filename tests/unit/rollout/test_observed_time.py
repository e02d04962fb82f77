"""What time counts."""

from datetime import timedelta

import pytest
from diffusion_operator.core.gates import Crashes
from diffusion_operator.core.rollout import Run, are_answered, resumed_runs

from .builders import GOOD, LOOK, NO_DATA, PACE, START, STEP, Rollout, observed


def test_a_look_is_not_a_write() -> None:
    rollout = observed()
    before = rollout.state
    rollout.look()
    rollout.look()
    assert rollout.state is before


def test_counted_time_is_written_now_and_then() -> None:
    rollout = observed()
    before = rollout.state
    rollout.looks(PACE.checkpoint_seconds + LOOK)
    assert rollout.state is not before
    assert rollout.state.canary is not None
    assert rollout.state.canary.observed_seconds >= PACE.checkpoint_seconds - LOOK


def test_what_was_counted_is_written_when_it_stops() -> None:
    rollout = observed().looks(2 * LOOK)
    rollout.data = NO_DATA
    rollout.look()
    assert rollout.state.canary is not None
    assert rollout.state.canary.observed_seconds == pytest.approx(2 * LOOK, abs=1)


def test_a_write_that_was_lost_counts_nothing_twice() -> None:
    rollout = observed().looks(2 * LOOK)
    runs, state = rollout.runs, rollout.state
    rollout.looks(PACE.checkpoint_seconds)
    assert rollout.state is not state
    written = rollout.state.canary
    rollout.runs = runs  # the process never heard that its write was taken
    rollout.look(1)
    assert rollout.state.canary is not None
    assert written is not None
    assert rollout.state.canary.observed_seconds - written.observed_seconds < 2 * LOOK


@pytest.mark.parametrize("jump", [-1e7, -60.0, 1e7])
def test_a_clock_that_jumps_gives_no_time_away(jump: float) -> None:
    rollout = observed().looks(STEP / 2)
    rollout.now += timedelta(seconds=jump)
    rollout.look()
    assert rollout.weights() == {"new": 40}
    for _ in range(3):
        rollout.look()
    assert rollout.weights() == {"new": 40}
    assert rollout.looks(2 * STEP).weights() != {"new": 40}, "and does not stop it for ever"


def test_a_process_that_takes_over_goes_on_where_the_other_ended() -> None:
    rollout = observed().looks(STEP - 3 * LOOK)
    alive_until = rollout.now
    assert rollout.state.canary is not None
    rollout.runs = resumed_runs(rollout.state, alive_since=START, alive_until=alive_until)
    assert isinstance(rollout.runs["new"], Run)
    rollout.look(3600)
    rollout.looks(2 * LOOK)
    assert rollout.weights() == {"new": 40}
    assert rollout.looks(2 * LOOK).weights() == {"new": 70}


def test_a_process_whose_clock_was_ahead_gives_no_time_away() -> None:
    rollout = observed().looks(LOOK)
    rollout.runs = resumed_runs(rollout.state, alive_since=START, alive_until=rollout.now + timedelta(seconds=2 * STEP))
    rollout.look()
    assert rollout.state.canary is not None
    assert rollout.state.canary.observed_seconds == pytest.approx(2 * LOOK, abs=1)


def test_a_record_that_began_after_the_last_account_proves_nothing() -> None:
    rollout = observed().looks(STEP / 2)
    assert resumed_runs(rollout.state, alive_since=rollout.now, alive_until=rollout.now) == {}


def test_a_pass_without_metrics_neither_counts_nor_breaks() -> None:
    rollout, undisturbed = observed(), observed()
    for _ in range(round(STEP / LOOK / 2)):
        rollout.wake(LOOK / 2)
        rollout.look(LOOK / 2)
        undisturbed.look(LOOK)
    assert rollout.state == undisturbed.state
    assert rollout.runs == undisturbed.runs


def test_a_pass_without_metrics_takes_no_step_and_a_crash_still_rolls_back() -> None:
    rollout = observed().looks(STEP - 2 * LOOK)
    rollout.wake(2 * LOOK)
    assert rollout.weights() == {"new": 40}
    rollout.crashes = {"new": Crashes(2)}
    rollout.wake()
    assert rollout.weights() == {}


def test_a_held_step_stays_held_between_two_looks() -> None:
    rollout = observed()
    rollout.data = NO_DATA
    rollout.look()
    held = rollout.state
    rollout.wake()
    assert rollout.state is held


def test_a_promotion_that_is_asked_for_waits_for_what_the_step_showed() -> None:
    rollout = observed()
    rollout.ask("promote:1")
    rollout.wake()
    assert rollout.weights() == {"new": 40}
    rollout.look()
    assert rollout.weights() == {"new": 70}
    assert rollout.state.canary is not None
    assert rollout.state.canary.earlier_repetition.count > 0


def test_a_step_whose_time_stands_still_just_before_its_end_is_looked_at_no_more_often() -> None:
    rollout = observed()
    rollout.looks(STEP - LOOK)
    rollout.look(LOOK - 2)
    assert rollout.look(1).requeue_after == 1
    rollout.data = NO_DATA
    assert [rollout.look(1).requeue_after for _ in range(3)] == [LOOK] * 3


def test_a_clock_that_is_set_back_behind_a_steps_begin_lets_the_next_readings_be_of_this_step() -> None:
    rollout = observed()
    rollout.looks(STEP / 2)
    counted = rollout.state.canary.observed_seconds if rollout.state.canary else 0.0
    rollout.now -= timedelta(days=1)
    rollout.wake()
    canary = rollout.state.canary
    assert canary is not None
    assert canary.started_at == rollout.now
    assert canary.observed_seconds >= counted
    assert are_answered(rollout.observe().readings, rollout.state, starts=rollout.starts)


def test_the_begin_of_a_step_is_written_with_its_first_reading() -> None:
    rollout = Rollout()
    rollout.pass_()
    rollout.data = None
    began = rollout.now + timedelta(seconds=1)
    for _ in range(3):
        decision = rollout.look(1)
        assert rollout.state.canary is not None
        assert rollout.state.canary.started_at is None
        assert (decision.starts, decision.awaits_gateways) == ({"new": began}, False)
    rollout.data = GOOD
    rollout.look(1)
    assert rollout.state.canary is not None
    assert (rollout.state.canary.started_at, rollout.state.canary.is_observing) == (began, True)


def test_a_process_that_ends_before_the_first_reading_leaves_no_begin() -> None:
    rollout = Rollout()
    rollout.pass_()
    rollout.data = None
    rollout.look(1)
    rollout.restart()
    rollout.data = GOOD
    rollout.look(3600)
    rollout.look(1)
    assert rollout.state.canary is not None
    assert rollout.state.canary.started_at == rollout.now - timedelta(seconds=1)


def test_routes_that_are_not_in_force_begin_no_step() -> None:
    rollout = Rollout()
    rollout.pass_()
    rollout.in_force = False
    decision = rollout.look(1)
    assert (decision.starts, decision.awaits_gateways) == ({}, True)
