"""A rollout for tests, in as few words as possible: AR serves, `new` climbs in three steps of 300 seconds."""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, timedelta
from math import inf

from diffusion_operator.core.gates import Crashes, GateLimit, GateName, Quality, Speed
from diffusion_operator.core.rollout import (
    Command,
    Decision,
    Intent,
    Observation,
    Pace,
    Policy,
    Reading,
    RolloutState,
    Run,
    Window,
    parse_command,
    step,
    windows,
)
from diffusion_operator.core.verdict import Buckets, Moments, Proportion, Unreadable

START = datetime(2026, 1, 1, tzinfo=UTC)
STEP = 300.0
LOOK = 30.0
PACE = Pace(LOOK, longest_gap_seconds=120.0, checkpoint_seconds=100.0)

GATES = {
    GateName.REPETITION_RATE: GateLimit(0.15, 200),
    GateName.ERROR_RATE: GateLimit(0.01, 50),
}
ALL_GATES = {
    GateName.PERPLEXITY_RATIO: GateLimit(1.15, 200),
    GateName.TIME_TO_FIRST_TOKEN: GateLimit(0.5, 200),
    GateName.LATENCY_RATIO: GateLimit(0.3, 200),
    **GATES,
}
POLICY = Policy(initial_percent=40, step_percent=30, step_seconds=STEP, max_hold_seconds=1000.0, gates=GATES)


def proportion(share: float, *, of: float = 2000) -> Proportion:
    return Proportion(of, share * of)


def pairs(ratio_log: float, *, count: float = 1000, deviation: float = 0.3) -> Moments:
    """Pairs with this mean and deviation."""
    return Moments(count, count * ratio_log, count * (deviation**2 + ratio_log**2))


def first_tokens(share_above: float, *, of: float = 2000, limit: float = 0.5) -> Buckets:
    return Buckets((limit / 2, limit, inf), (0.5 * of * (1 - share_above), of * (1 - share_above), of))


def quality(*, repetition: float = 0.02, of: float = 2000) -> Quality:
    return Quality(repetition=proportion(repetition, of=of))


def speed(*, errors: float = 0.0, of: float = 2000) -> Speed:
    return Speed(errors=proportion(errors, of=of))


GOOD = (quality(), speed(), speed(of=200))
REPEATS = (quality(repetition=0.4), speed(), speed(of=200))
FEW = (quality(of=20), speed(of=20), speed(of=2))
UNREADABLE = Unreadable("Prometheus does not answer")
NO_DATA = (
    Quality(UNREADABLE, UNREADABLE),
    Speed(UNREADABLE, UNREADABLE, UNREADABLE),
    Speed(UNREADABLE, UNREADABLE, UNREADABLE),
)

Data = tuple[Quality, Speed, Speed]


@dataclass
class Rollout:
    """A rollout that a test drives. Every attribute may be changed between passes."""

    revision: str = "new"
    ar: str | None = "ar"
    policy: Policy = POLICY
    ready: dict[str, int] = field(default_factory=lambda: {"ar": 1, "new": 1, "old": 1, "next": 1})
    data: Data | None = GOOD
    in_force: bool = True
    is_measured: bool = True
    crashes: Mapping[str, Crashes] = field(default_factory=dict)
    state: RolloutState = field(default_factory=RolloutState)
    now: datetime = START
    runs: Mapping[str, Run] = field(default_factory=dict)
    starts: Mapping[str, datetime] = field(default_factory=dict)
    command: Command | None = None
    reasons: list[str] = field(default_factory=list)

    def ask(self, text: str) -> None:
        self.command = parse_command(text)

    def window(self, window: Window) -> Reading | None:
        return Reading(window, *self.data) if self.data else None

    def observe(self) -> Observation:
        readings = [
            self.window(window) for window in windows(self.state, self.policy, starts=self.starts, now=self.now)
        ]
        return Observation(
            ready=dict(self.ready),
            in_force=self.in_force,
            readings={reading.window.revision: reading for reading in readings if reading},
            crashes=self.crashes,
            runs=self.runs,
            starts=self.starts,
            is_measured=self.is_measured,
        )

    def intent(self) -> Intent:
        return Intent(self.revision, self.ar, self.policy, command=self.command)

    def pass_(self) -> Decision:
        """One pass now."""
        decision = step(self.intent(), self.state, self.observe(), now=self.now, pace=PACE)
        self.state, self.runs, self.starts = decision.status, decision.runs, decision.starts
        self.reasons += [event.reason for event in decision.events]
        return decision

    def look(self, after: float = LOOK) -> Decision:
        """One pass, `after` seconds later."""
        self.now += timedelta(seconds=after)
        return self.pass_()

    def wake(self, after: float = 1.0) -> Decision:
        """One pass between two looks: something woke the operator, and no metrics are read."""
        self.is_measured = False
        decision = self.look(after)
        self.is_measured = True
        return decision

    def looks(self, seconds: float) -> "Rollout":
        """Passes for so long."""
        for _ in range(round(seconds / LOOK)):
            self.look()
        return self

    def restart(self) -> None:
        """The operator's process ends; another one will start."""
        self.runs, self.starts = {}, {}

    def weights(self) -> dict[str, int]:
        """Percent by revision."""
        return weights(self.state)

    def set(self, **changes: object) -> None:
        self.policy = replace(self.policy, **changes)  # type: ignore[arg-type]


def weights(state: RolloutState) -> dict[str, int]:
    found = {}
    if state.stable:
        found[state.stable.revision] = 100 - state.canary_percent
    if state.canary:
        found[state.canary.revision] = state.canary_percent
    return found


def observed(percent: int = 40) -> Rollout:
    """A rollout whose first step has just begun to be observed."""
    rollout = Rollout()
    rollout.set(initial_percent=percent)
    rollout.pass_()
    rollout.look(1)
    rollout.look(1)
    return rollout


def promoted() -> Rollout:
    """A rollout that reached its end."""
    rollout = observed(100)
    rollout.set(initial_percent=40)
    return rollout
