"""What a spec asks of a rollout, with every default in place."""

from dataclasses import dataclass, field

from diffusion_operator.api.spec import (
    DiffusionModelSpec,
    ErrorGate,
    FirstTokenGate,
    Gates,
    LatencyGate,
    PerplexityGate,
    RepetitionGate,
    Rollout,
)
from diffusion_operator.api.units import seconds
from diffusion_operator.core import defaults
from diffusion_operator.core.gates import GateLimit, GateLimits, GateName

from .commands import Command

# As the descriptions in api.spec promise.
STEP_PERCENT = 5
STEP_DURATION = "24h"
MAX_HOLD = "168h"
PERPLEXITY_RATIO = 1.15
REPETITION_RATE = 0.15
FIRST_TOKEN = "500ms"  # noqa: S105 no secret
LATENCY_RATIO = 0.30
ERROR_RATE = 0.01
ERROR_WINDOW = "5m"
MIN_SAMPLES = 200
MIN_REQUESTS = 50
SAMPLE_PERCENT = 5.0

# A look takes as long as Prometheus does, and longer on a busy machine: with short steps that alone is not nobody looking.
_LEAST_GAP_SECONDS = 20.0


@dataclass(frozen=True, slots=True)
class Policy:
    """`spec.rollout` in numbers. Durations in seconds."""

    initial_percent: int = defaults.INITIAL_PERCENT
    step_percent: int = STEP_PERCENT
    step_seconds: float = 86_400.0
    paused: bool = False
    rolls_back_when_overdue: bool = False
    max_hold_seconds: float = 604_800.0
    guard_seconds: float = 300.0
    gates: GateLimits = field(default_factory=dict)

    @property
    def ladder(self) -> tuple[int, ...]:
        """The weights of a revision on its way, in percent: from the initial one to 100."""
        return (*range(self.initial_percent, 100, self.step_percent), 100)

    def next_percent(self, current: int) -> int:
        """The next weight on the ladder; 100 stays."""
        return next((percent for percent in self.ladder if percent > current), 100)


@dataclass(frozen=True, slots=True)
class Pace:
    """How often the shell looks. Between looks it hears of crashes, of pods and of arms that fail more than they should.

    Two looks that are further apart than `longest_gap_seconds` had nobody looking in between: that time does not count.
    `checkpoint_seconds` is how long counted time may stay unwritten. A restart loses at most that, and nothing where
    `resumed_runs` can be told how long the process before was alive.
    """

    look_seconds: float = 300.0
    longest_gap_seconds: float = 1200.0
    checkpoint_seconds: float = 3600.0

    @classmethod
    def of(cls, policy: Policy) -> "Pace":
        """Looks that do justice to the length of a step: a hundred in it, or one in five minutes, at most one a second."""
        look = min(300.0, max(1.0, policy.step_seconds / 100))
        return cls(
            look,
            longest_gap_seconds=max(4 * look, _LEAST_GAP_SECONDS),
            checkpoint_seconds=max(10 * look, policy.step_seconds / 24),
        )


@dataclass(frozen=True, slots=True)
class Intent:
    """What is asked for: by spec, and by a person's one-shot command.

    `revision` is the diffusion revision of spec; `ar` the AR revision that serves as fallback, None while there is none.
    """

    revision: str
    ar: str | None
    policy: Policy
    replicas: int = 1
    command: Command | None = None


def policy(spec: DiffusionModelSpec, *, can_score: bool = True) -> Policy:
    """The policy of a spec. A gate that nothing could ever judge is left out.

    Where no pairs are scored there is none on perplexity: nobody asked for them, or the AR server cannot score (`can_score`).
    """
    rollout = spec.rollout or Rollout()
    errors = (rollout.gates and rollout.gates.error_rate) or ErrorGate()
    return Policy(
        initial_percent=rollout.initial_percent or defaults.INITIAL_PERCENT,
        step_percent=rollout.step_percent or STEP_PERCENT,
        step_seconds=seconds(rollout.step_duration or STEP_DURATION),
        paused=bool(rollout.paused),
        rolls_back_when_overdue=rollout.on_inconclusive == "Rollback",
        max_hold_seconds=seconds(rollout.max_hold or MAX_HOLD),
        guard_seconds=seconds(errors.window or ERROR_WINDOW),
        gates=_gates(rollout.gates or Gates(), is_scored=can_score and scored_share(spec) > 0),
    )


def scored_share(spec: DiffusionModelSpec) -> float:
    """Share of the diffusion answers that the AR model answers and scores too, where it can."""
    percent = spec.scoring.sample_percent if spec.scoring else None
    return (SAMPLE_PERCENT if percent is None else percent) / 100


def _gates(gates: Gates, *, is_scored: bool) -> GateLimits:
    perplexity = gates.perplexity_ratio or PerplexityGate()
    repetition = gates.repetition_rate or RepetitionGate()
    first_token = gates.time_to_first_token or FirstTokenGate()
    latency = gates.latency_ratio or LatencyGate()
    errors = gates.error_rate or ErrorGate()
    limits = {
        GateName.PERPLEXITY_RATIO: _limit(perplexity.max, PERPLEXITY_RATIO, perplexity.min_samples),
        GateName.REPETITION_RATE: _limit(repetition.max, REPETITION_RATE, repetition.min_samples),
        GateName.TIME_TO_FIRST_TOKEN: GateLimit(
            seconds(first_token.p95 or FIRST_TOKEN), first_token.min_samples or MIN_SAMPLES
        ),
        GateName.LATENCY_RATIO: _limit(latency.max, LATENCY_RATIO, latency.min_samples),
        GateName.ERROR_RATE: _limit(errors.max, ERROR_RATE, errors.min_samples or MIN_REQUESTS),
    }
    if not is_scored:
        del limits[GateName.PERPLEXITY_RATIO]
    return limits


def _limit(highest: float | None, default: float, min_samples: int | None) -> GateLimit:
    return GateLimit(default if highest is None else highest, min_samples or MIN_SAMPLES)
