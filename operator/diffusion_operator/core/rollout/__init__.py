"""The rollout of a revision: a pure state machine over `status.rollout`.

`step` decides once; `windows` says which time spans to read metrics for before it.
"""

from diffusion_operator.api.rollout import Change, Failure, GateStatus, RolloutPhase, RolloutState, Watched

from .acts import RolloutEvent, last_starts
from .commands import LONGEST_COMMAND, MEANS, Command, Verb, parse_command
from .machine import Decision, step
from .observation import Observation, Reading, Run, are_answered
from .observed_time import resumed_runs
from .policy import Intent, Pace, Policy, policy, scored_share
from .windows import Window, begins_of, windows

__all__ = [
    "LONGEST_COMMAND",
    "MEANS",
    "Change",
    "Command",
    "Decision",
    "Failure",
    "GateStatus",
    "Intent",
    "Observation",
    "Pace",
    "Policy",
    "Reading",
    "RolloutEvent",
    "RolloutPhase",
    "RolloutState",
    "Run",
    "Verb",
    "Watched",
    "Window",
    "are_answered",
    "begins_of",
    "last_starts",
    "parse_command",
    "policy",
    "resumed_runs",
    "scored_share",
    "step",
    "windows",
]
