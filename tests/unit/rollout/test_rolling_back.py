"""A revision that fails."""

from diffusion_operator.core.gates import Crashes
from diffusion_operator.core.rollout import RolloutPhase

from .builders import FEW, GOOD, LOOK, NO_DATA, REPEATS, STEP, observed, promoted, quality, speed


def test_a_failed_gate_rolls_back_at_once() -> None:
    rollout = observed()
    rollout.data = REPEATS
    rollout.look()
    assert rollout.weights() == {}
    assert rollout.state.phase is RolloutPhase.ROLLED_BACK
    assert rollout.state.failure is not None
    assert rollout.state.failure.reason == "repetitionRate"
    assert "RolledBack" in rollout.reasons


def test_the_fast_guard_sees_errors_that_the_step_has_not_noticed() -> None:
    rollout = observed()
    rollout.data = (quality(), speed(errors=0.002, of=100_000), speed(errors=0.5, of=200))
    rollout.look()
    assert rollout.state.phase is RolloutPhase.ROLLED_BACK


def test_one_crash_is_forgiven_and_two_are_not() -> None:
    rollout = observed()
    rollout.crashes = {"new": Crashes(1)}
    rollout.look()
    assert rollout.weights() == {"new": 40}
    rollout.crashes = {"new": Crashes(2, out_of_memory=2)}
    rollout.look()
    assert rollout.weights() == {}
    assert rollout.state.failure is not None
    assert "lack of memory" in rollout.state.failure.message


def test_a_crash_counts_without_any_metrics() -> None:
    rollout = observed()
    rollout.data = NO_DATA
    rollout.crashes = {"new": Crashes(3)}
    rollout.look()
    assert rollout.state.phase is RolloutPhase.ROLLED_BACK


def test_a_rolled_back_revision_stays_away() -> None:
    rollout = observed()
    rollout.data = REPEATS
    rollout.look()
    rollout.data = GOOD
    rollout.restart()
    before = rollout.state
    rollout.looks(5 * STEP)
    assert rollout.state == before, "and nothing is written"


def test_another_spec_or_a_retry_lets_it_try_again() -> None:
    rollout = observed()
    rollout.data = REPEATS
    rollout.look()
    rollout.data = GOOD
    rollout.revision = "next"
    rollout.look()
    assert rollout.weights() == {"next": 40}
    rollout.revision = "new"
    rollout.looks(2 * LOOK)
    assert rollout.weights() == {"new": 40}


def test_a_promoted_revision_that_degrades_gives_its_requests_to_ar() -> None:
    rollout = promoted().looks(STEP)
    rollout.data = REPEATS
    rollout.looks(2 * LOOK)  # a new period may just have begun
    assert rollout.weights() == {}
    assert rollout.state.phase is RolloutPhase.ROLLED_BACK
    assert rollout.state.stable is None


def test_a_failed_revision_does_not_return_because_the_stable_one_fails_as_well() -> None:
    rollout = promoted()
    rollout.revision = "next"
    rollout.looks(2 * LOOK)
    for failing in ("next", "new"):
        rollout.crashes = {failing: Crashes(2)}
        rollout.look()
    assert rollout.weights() == {}
    rollout.crashes = {}
    assert rollout.looks(5 * STEP).weights() == {}
    assert rollout.state.failure is not None
    assert rollout.state.failure.revision == "next"
    assert rollout.reasons.count("RolledBack") == 2


def test_a_canary_that_fails_leaves_the_stable_revision_alone() -> None:
    rollout = promoted()
    rollout.revision = "next"
    rollout.looks(2 * LOOK)
    rollout.crashes = {"next": Crashes(2)}
    rollout.look()
    assert rollout.weights() == {"new": 100}
    assert rollout.state.phase is RolloutPhase.ROLLED_BACK


def test_a_stable_revision_that_fails_leaves_the_canary_alone() -> None:
    rollout = promoted()
    rollout.revision = "next"
    rollout.looks(2 * LOOK)
    rollout.crashes = {"new": Crashes(2)}
    rollout.look()
    assert rollout.weights() == {"next": 40}


def test_nothing_goes_to_an_arm_that_is_dead() -> None:
    rollout = promoted()
    rollout.ready["ar"] = 0
    rollout.data = REPEATS
    rollout.looks(2 * LOOK)
    assert rollout.weights() == {"new": 100}
    assert rollout.state.phase is RolloutPhase.ROLLBACK_BLOCKED
    assert rollout.reasons.count("FallbackUnavailable") == 1
    rollout.data = GOOD
    rollout.ready["ar"] = 1
    rollout.look()
    assert rollout.weights() == {}, "what was due stays due"


def test_an_abort_that_waits_is_done_when_the_revision_that_should_take_over_falls_first() -> None:
    rollout = promoted()
    rollout.revision = "next"
    rollout.looks(2 * LOOK)
    rollout.ready["new"] = 0
    rollout.ask("abort:1")
    rollout.look()
    assert rollout.state.phase is RolloutPhase.ROLLBACK_BLOCKED
    rollout.crashes = {"new": Crashes(2)}
    rollout.look()
    assert rollout.weights() == {"next": 40}, "the stable revision lost its requests to AR"
    rollout.look()
    assert rollout.weights() == {}
    assert rollout.state.failure is not None
    assert (rollout.state.failure.revision, rollout.state.failure.reason) == ("next", "Aborted")


def test_a_rollback_of_the_stable_revision_that_waits_outlives_a_canary_that_is_withdrawn() -> None:
    rollout = promoted()
    rollout.revision = "next"
    rollout.looks(2 * LOOK)
    rollout.ready["ar"] = 0
    rollout.crashes = {"new": Crashes(2)}
    rollout.look()
    rollout.crashes, rollout.revision = {}, "old"
    rollout.look()
    assert rollout.weights() == {"new": 100}
    assert rollout.state.phase is RolloutPhase.ROLLBACK_BLOCKED
    rollout.ready["ar"] = 1
    rollout.look()
    assert rollout.weights() == {}, "what was due stays due"


def test_a_canary_that_spec_no_longer_asks_for_waits_for_whoever_takes_over() -> None:
    rollout = observed()
    rollout.ready["ar"] = 0
    rollout.revision = "next"
    rollout.looks(2 * LOOK)
    assert rollout.weights() == {"new": 40}
    assert rollout.state.phase is RolloutPhase.ROLLBACK_BLOCKED
    rollout.ready["ar"] = 1
    rollout.look()
    assert rollout.weights() == {}


def test_a_hold_that_lasts_too_long_is_told_and_nothing_more() -> None:
    rollout = observed()
    rollout.data = NO_DATA
    rollout.looks(2000)
    assert rollout.weights() == {"new": 40}
    assert rollout.state.is_overdue
    assert rollout.reasons.count("HeldTooLong") == 1


def test_a_hold_that_lasts_too_long_rolls_back_if_the_policy_says_so() -> None:
    rollout = observed()
    rollout.set(rolls_back_when_overdue=True)
    rollout.data = FEW
    rollout.looks(STEP + 900)
    assert rollout.weights() == {"new": 40}
    rollout.looks(300)
    assert rollout.weights() == {}
    assert rollout.state.failure is not None
    assert rollout.state.failure.reason == "Overdue"


def test_a_pause_stops_the_climb_and_not_the_guard() -> None:
    rollout = observed()
    rollout.set(paused=True)
    rollout.looks(3 * STEP)
    assert rollout.weights() == {"new": 40}
    assert rollout.state.phase is RolloutPhase.PAUSED
    rollout.data = REPEATS
    rollout.look()
    assert rollout.weights() == {}


def test_periods_after_promotion_count_for_themselves() -> None:
    rollout = promoted().looks(5 * STEP)
    assert rollout.state.stable is not None
    assert rollout.state.stable.step >= 4
    assert rollout.state.stable.earlier_repetition.count == 0


def test_a_period_without_enough_samples_goes_on_until_max_hold() -> None:
    rollout = promoted()
    rollout.data = FEW
    rollout.looks(1000)
    assert rollout.state.stable is not None
    step = rollout.state.stable.step
    assert rollout.state.stable.started_at is not None
    assert (rollout.now - rollout.state.stable.started_at).total_seconds() > 2 * STEP
    assert rollout.looks(600).state.stable.step == step + 1  # type: ignore[union-attr]


def test_a_rollback_that_must_wait_is_told_whole_in_one_pass() -> None:
    rollout = observed()
    rollout.ready.update(ar=0)
    rollout.ask("abort:1")
    rollout.look()
    before = rollout.state
    rollout.pass_()
    assert rollout.state == before
