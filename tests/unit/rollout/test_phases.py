"""Every phase can be reached, and left."""

from collections.abc import Callable

import pytest
from diffusion_operator.core.rollout import RolloutPhase

from .builders import GOOD, LOOK, NO_DATA, REPEATS, Rollout, observed, promoted


def waiting() -> Rollout:
    rollout = Rollout(ready={"ar": 1, "new": 0})
    return rollout.looks(LOOK)


def held() -> Rollout:
    rollout = observed()
    rollout.data = NO_DATA
    return rollout.looks(LOOK)


def paused() -> Rollout:
    rollout = observed()
    rollout.ask("pause:1")
    return rollout.looks(LOOK)


def blocked() -> Rollout:
    rollout = observed()
    rollout.ready["ar"] = 0
    rollout.data = REPEATS
    return rollout.looks(LOOK)


def rolled_back() -> Rollout:
    rollout = observed()
    rollout.data = REPEATS
    return rollout.looks(LOOK)


WAYS: dict[RolloutPhase, tuple[Callable[[], Rollout], Callable[[Rollout], None]]] = {
    RolloutPhase.WAITING: (waiting, lambda rollout: rollout.ready.update(new=1)),
    RolloutPhase.OBSERVING: (observed, lambda rollout: rollout.ask("promote-all:1")),
    RolloutPhase.HELD: (held, lambda rollout: setattr(rollout, "data", GOOD)),
    RolloutPhase.PAUSED: (paused, lambda rollout: rollout.ask("resume:1")),
    RolloutPhase.ROLLBACK_BLOCKED: (blocked, lambda rollout: rollout.ready.update(ar=1)),
    RolloutPhase.ROLLED_BACK: (rolled_back, lambda rollout: rollout.ask("retry:1")),
    RolloutPhase.PROMOTED: (promoted, lambda rollout: setattr(rollout, "revision", "next")),
}


@pytest.mark.parametrize("phase", RolloutPhase)
def test_a_phase_is_reached_and_left(phase: RolloutPhase) -> None:
    reach, leave = WAYS[phase]
    rollout = reach()
    assert rollout.state.phase is phase
    assert rollout.state.message
    leave(rollout)
    rollout.look()
    assert rollout.state.phase is not phase
