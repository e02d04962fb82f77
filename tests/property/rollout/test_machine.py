"""The rollout under anything that may happen: data comes and goes, pods die, clocks jump, operators restart, people change their minds."""

from datetime import timedelta

from diffusion_operator.core.gates import Crashes
from diffusion_operator.core.rollout import RolloutPhase, RolloutState, begins_of
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule

from tests.unit.rollout.builders import FEW, GOOD, LOOK, NO_DATA, PACE, REPEATS, STEP, Data, Rollout, weights

REVISIONS = ["new", "next", "old"]
LADDER = {0, 40, 70, 100}
DATA: dict[str, Data | None] = {"good": GOOD, "bad": REPEATS, "few": FEW, "unreadable": NO_DATA, "absent": None}
COMMANDS = ["pause", "resume", "promote", "promote-all", "abort", "retry"]


def steps_of(rollout: Rollout) -> list[object]:
    """Which step of which revision is observed since when, written or not."""
    begins = begins_of(rollout.state, rollout.starts)
    watched = (rollout.state.stable, rollout.state.canary)
    return [(one.revision, one.step, begins.get(one.revision)) if one else None for one in watched]


def canary_step(state: RolloutState) -> tuple[str, int] | None:
    """Which step of which revision climbs."""
    return (state.canary.revision, state.canary.step) if state.canary else None


class World(RuleBasedStateMachine):
    """A rollout, and its true history kept beside it."""

    def __init__(self) -> None:
        super().__init__()
        self.rollout = Rollout()
        self.rollout.in_force = True
        self.commands = 0
        # What really happened since the canary's step was in force: time that should count, and whether it does now.
        self.counted = 0.0
        self.was_counting = False
        self.unlooked = 0.0  # seconds since the last look in which passes read no metrics
        self.jumped = 0.0  # seconds that the clock was set forward since the last look
        self.failed: set[str] = set()

    @initialize(is_promoted=st.booleans())
    def another_revision_may_be_promoted_already(self, is_promoted: bool) -> None:
        rollout = self.rollout
        if is_promoted:
            rollout.revision = "old"
            rollout.ask("promote-all:0")
            for _ in range(3):
                self.look(1.0)
            rollout.revision = "new"

    @rule(times=st.integers(1, 12), after=st.sampled_from([1.0, LOOK, LOOK, LOOK, 110.0]))
    def the_operator_looks(self, times: int, after: float) -> None:
        for _ in range(times):
            self.look(after)

    @rule(after=st.sampled_from([0.0, 1.0, LOOK]))
    def something_wakes_the_operator(self, after: float) -> None:
        """A pass without metrics: neither does it count time, nor does it take any away."""
        rollout, before, steps = self.rollout, self.rollout.state, steps_of(self.rollout)
        rollout.wake(after)
        self.unlooked += after
        self.check(before, rollout.state)
        if steps[1] != steps_of(rollout)[1]:
            # Where the clock went back behind its begin it is the same step still: what was counted stays.
            self.counted = self.counted if canary_step(before) == canary_step(rollout.state) else 0.0
            self.was_counting, self.unlooked, self.jumped = False, 0.0, 0.0

    @rule(seconds=st.sampled_from([1.0, 60.0, 3600.0, 2_000_000.0]))
    def the_operator_restarts(self, seconds: float) -> None:
        self.rollout.restart()
        self.rollout.now += timedelta(seconds=seconds)
        self.was_counting = False

    @rule(seconds=st.sampled_from([-1e6, -3600.0, -40.0, 500.0, 1e6]))
    def the_clock_jumps(self, seconds: float) -> None:
        self.rollout.now += timedelta(seconds=seconds)
        self.jumped += seconds

    @rule(data=st.sampled_from(sorted(DATA)))
    def metrics_change(self, data: str) -> None:
        self.rollout.data = DATA[data]

    @rule(revision=st.sampled_from(["ar", *REVISIONS]), pods=st.integers(0, 1))
    def pods_change(self, revision: str, pods: int) -> None:
        self.rollout.ready[revision] = pods

    @rule(revision=st.sampled_from(REVISIONS), crashes=st.integers(0, 2))
    def pods_crash(self, revision: str, crashes: int) -> None:
        self.rollout.crashes = {revision: Crashes(crashes)}

    @rule(in_force=st.booleans())
    def gateways_lag_or_follow(self, in_force: bool) -> None:
        self.rollout.in_force = in_force

    @rule(revision=st.sampled_from(REVISIONS))
    def spec_asks_for_another_revision(self, revision: str) -> None:
        if revision != self.rollout.revision:
            self.failed.clear()
        self.rollout.revision = revision

    @rule(paused=st.booleans(), rolls_back=st.booleans())
    def spec_changes_its_policy(self, paused: bool, rolls_back: bool) -> None:
        self.rollout.set(paused=paused, rolls_back_when_overdue=rolls_back)

    @rule(command=st.sampled_from(COMMANDS))
    def a_person_asks(self, command: str) -> None:
        self.commands += 1
        self.rollout.ask(f"{command}:{self.commands}")
        if command == "retry":
            self.failed.clear()

    def look(self, after: float) -> None:
        rollout, before, steps = self.rollout, self.rollout.state, steps_of(self.rollout)
        rollout.now += timedelta(seconds=after)
        # By the clock: what a small jump back takes away is not counted, and the rest of the time was observed.
        self.account(after + self.jumped + self.unlooked, before)
        self.jumped = self.unlooked = 0.0
        rollout.pass_()
        self.check(before, rollout.state)
        if steps == steps_of(rollout):
            again = Rollout(**{**vars(rollout), "reasons": []})
            again.pass_()
            assert again.state == rollout.state, "the same time again changes nothing"
            assert again.reasons == []

    def account(self, by_the_clock: float, before: RolloutState) -> None:
        """What time a careful person would count for the canary's step, up to this look."""
        rollout, canary = self.rollout, before.canary
        if canary is None or canary.revision not in begins_of(before, rollout.starts):
            self.counted, self.was_counting = 0.0, False
            return
        arms = [rollout.ar, canary.revision, *([before.stable.revision] if before.stable else [])]
        readable = rollout.data not in (None, NO_DATA)
        counts = readable and rollout.in_force and all(rollout.ready.get(arm or "", 0) for arm in arms)
        if counts and self.was_counting and 0 < by_the_clock <= PACE.longest_gap_seconds:
            self.counted += by_the_clock
        self.was_counting = counts

    def check(self, before: RolloutState, after: RolloutState) -> None:
        rollout, news = self.rollout, after.history[len(before.history) :] if len(after.history) < 20 else []
        changed = {
            revision
            for revision in {*weights(before), *weights(after)}
            if weights(before).get(revision, 0) != weights(after).get(revision, 0)
        }
        if not changed:
            return
        assert len(news) <= 1, "one act in a pass"
        reason = after.history[-1].reason
        mover = after.history[-1].revision
        old, new = weights(before).get(mover, 0), weights(after).get(mover, 0)
        if new > old:
            self.check_rise(after, reason, mover, old, new)
        else:
            self.check_fall(before, after, reason, mover)
        if rollout.data in (None, NO_DATA):
            assert reason not in {"GatesPass", "repetitionRate", "errorRate"}, "missing data decides nothing"

    def check_rise(self, after: RolloutState, reason: str, mover: str, old: int, new: int) -> None:
        rollout = self.rollout
        assert mover == rollout.revision, "only what spec asks for rises"
        assert mover not in self.failed, "what failed does not return by itself"
        assert rollout.in_force, "routes are in force before the next weight"
        assert reason in {"Started", "GatesPass", "Asked"}
        if reason == "GatesPass":
            assert self.counted >= STEP - 1e-6, "the whole observed time"
            assert not rollout.policy.paused
            assert not after.is_paused
        if reason != "Asked" and rollout.ar:
            assert new == {0: 40, 40: 70, 70: 100}[old]

    def check_fall(self, before: RolloutState, after: RolloutState, reason: str, mover: str) -> None:
        rollout = self.rollout
        stable = before.stable.revision if before.stable else None
        takes_over = rollout.ar if mover == stable else stable or rollout.ar
        assert rollout.ready.get(takes_over or "", 0), "nothing goes to an arm that is dead"
        if reason != "Withdrawn":
            self.failed.add(mover)
            assert after.failure is not None
        if reason == "Overdue":
            assert rollout.policy.rolls_back_when_overdue

    @invariant()
    def weights_are_on_the_ladder(self) -> None:
        state = self.rollout.state
        assert state.canary_percent in LADDER
        assert (state.canary is None) == (state.canary_percent == 0)

    @invariant()
    def nobody_plays_two_parts(self) -> None:
        state = self.rollout.state
        assert not (state.stable and state.canary and state.stable.revision == state.canary.revision)

    @invariant()
    def the_state_survives_the_api_server(self) -> None:
        state = self.rollout.state
        assert RolloutState.model_validate(state.to_wire()) == state

    def teardown(self) -> None:
        """Whatever happened: with good data, healthy pods and a retry the wanted revision gets to the top."""
        rollout = self.rollout
        rollout.data, rollout.in_force, rollout.crashes = GOOD, True, {}
        rollout.ready = dict.fromkeys(["ar", *REVISIONS], 1)
        rollout.set(paused=False)
        self.a_person_asks("resume")
        self.look(LOOK)
        self.a_person_asks("retry")
        for _ in range(40):
            self.look(110.0)
            if rollout.state.phase is RolloutPhase.PROMOTED:
                break
        assert rollout.state.phase is RolloutPhase.PROMOTED
        assert rollout.weights() == {rollout.revision: 100}


TestWorld = World.TestCase
TestWorld.settings = settings(max_examples=2000, stateful_step_count=15, deadline=None)
