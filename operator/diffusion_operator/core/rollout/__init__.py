"""The rollout of a revision: a pure state machine over `status.rollout`.

`step` decides once; `window` says which time span to read metrics for before it; `shares` says which routes it wants.
"""

from .commands import Command, Verb, parse_command
from .machine import Decision, step
from .observation import Observation, Reading
from .policy import Intent, Pace, Policy, policy
from .state import Change, Failure, GateStatus, RolloutPhase, RolloutState, Watched
from .windows import Window, windows

__all__ = [
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
    "RolloutPhase",
    "RolloutState",
    "Verb",
    "Watched",
    "Window",
    "parse_command",
    "policy",
    "step",
    "windows",
]
