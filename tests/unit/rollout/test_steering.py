"""What people ask for by annotation."""

import pytest
from diffusion_operator.core.rollout import RolloutPhase, Verb, parse_command

from .builders import FEW, LOOK, REPEATS, STEP, Rollout, observed, promoted


def test_a_command_is_acted_on_once() -> None:
    rollout = observed()
    rollout.ask("promote:1")
    rollout.look()
    assert rollout.weights() == {"new": 70}
    rollout.restart()
    rollout.looks(3 * LOOK)
    assert rollout.weights() == {"new": 70}
    rollout.ask("promote:2")
    assert rollout.looks(LOOK).weights() == {"new": 100}


def test_promote_does_not_wait_for_gates() -> None:
    rollout = observed()
    rollout.data = FEW
    rollout.ask("promote")
    assert rollout.looks(LOOK).weights() == {"new": 70}


def test_promote_all_makes_the_revision_stable() -> None:
    rollout = observed()
    rollout.ask("promote-all")
    rollout.look()
    assert rollout.state.phase is RolloutPhase.PROMOTED


def test_abort_takes_all_requests_away_until_a_retry() -> None:
    rollout = observed()
    rollout.ask("abort")
    rollout.looks(STEP)
    assert rollout.weights() == {}
    assert rollout.state.failure is not None
    assert rollout.state.failure.reason == "Aborted"
    rollout.ask("retry")
    assert rollout.looks(LOOK).weights() == {"new": 40}


def test_abort_is_the_way_to_ar_for_a_promoted_revision() -> None:
    rollout = promoted()
    rollout.ask("abort")
    rollout.looks(STEP)
    assert rollout.weights() == {}


def test_abort_before_the_first_weight_keeps_the_revision_away() -> None:
    rollout = Rollout(ready={"ar": 1, "new": 0})
    rollout.ask("abort")
    rollout.look()
    rollout.ready["new"] = 1
    assert rollout.looks(STEP).weights() == {}


def test_abort_in_a_pass_that_withdraws_by_itself_is_told_not_to_be_done() -> None:
    rollout = observed()
    rollout.revision = "next"
    rollout.ask("abort")
    rollout.look()
    assert rollout.weights() == {}
    assert {"Withdrawn", "CommandRefused"} <= set(rollout.reasons)
    assert rollout.state.failure is None


def test_abort_of_what_is_rolled_back_anyway_is_told_not_to_be_done() -> None:
    rollout = observed()
    rollout.ready.update(ar=0)
    rollout.data = REPEATS
    rollout.look()
    rollout.ask("abort")
    rollout.look()
    assert rollout.reasons.count("CommandRefused") == 1
    assert rollout.state.due is not None
    assert rollout.state.due.reason == "repetitionRate"


def test_abort_that_is_done_is_not_refused() -> None:
    rollout = observed()
    rollout.ask("abort")
    rollout.look()
    assert "RolledBack" in rollout.reasons
    assert "CommandRefused" not in rollout.reasons


def test_pause_and_resume() -> None:
    rollout = observed()
    rollout.ask("pause")
    rollout.looks(2 * STEP)
    assert rollout.weights() == {"new": 40}
    rollout.ask("resume")
    assert rollout.looks(LOOK).weights() == {"new": 70}


def test_resume_does_not_overrule_git() -> None:
    rollout = observed()
    rollout.set(paused=True)
    rollout.ask("resume")
    rollout.looks(2 * STEP)
    assert rollout.state.phase is RolloutPhase.PAUSED


@pytest.mark.parametrize("command", ["retry", "promote:now"])
def test_what_cannot_be_done_is_refused_once_and_said(command: str) -> None:
    rollout = promoted()
    rollout.ask(command)
    rollout.looks(3 * LOOK)
    assert rollout.reasons.count("CommandRefused") == 1


def test_a_revision_that_was_rolled_back_is_not_promoted() -> None:
    rollout = observed()
    rollout.data = REPEATS
    rollout.look()
    rollout.ask("promote-all")
    rollout.looks(LOOK)
    assert rollout.weights() == {}
    assert "CommandRefused" in rollout.reasons


def test_a_failure_comes_before_a_promotion() -> None:
    rollout = observed()
    rollout.data = REPEATS
    rollout.ask("promote-all")
    rollout.look()
    assert rollout.weights() == {}
    assert "CommandRefused" in rollout.reasons


def test_a_word_that_is_no_command_is_refused_with_those_that_are() -> None:
    with pytest.raises(ValueError, match="write pause, resume, promote, promote-all, abort, retry"):
        parse_command("rollback:1")
    assert parse_command("abort: because of smoke").verb is Verb.ABORT


@pytest.mark.parametrize("verb", ["promote", "promote-all"])
def test_a_canary_that_spec_no_longer_asks_for_is_not_promoted(verb: str) -> None:
    rollout = observed()
    rollout.revision = "next"
    rollout.ready["ar"] = 0  # nobody can take its requests back yet
    rollout.ask(f"{verb}:1")
    rollout.look()
    assert rollout.weights() == {"new": 40}
    assert "CommandRefused" in rollout.reasons
