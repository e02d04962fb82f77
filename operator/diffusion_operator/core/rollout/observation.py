"""What was seen before a step."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime

from diffusion_operator.api.rollout import RolloutState
from diffusion_operator.core.gates import Crashes, Quality, Speed

from .windows import Window, begins_of


@dataclass(frozen=True, slots=True)
class Reading:
    """Metrics of one revision over the time spans of a window: `guard` over its last minutes, the rest over the step."""

    window: Window
    quality: Quality = field(default_factory=Quality)
    speed: Speed = field(default_factory=Speed)
    guard: Speed = field(default_factory=Speed)


@dataclass(frozen=True, slots=True)
class Run:
    """An unbroken run of looks by this process at which everything could be observed.

    `is_over`: of a process that has ended. What it counted is to be written down; nothing is added to it.
    """

    since: datetime
    until: datetime
    is_over: bool = False


@dataclass(frozen=True, slots=True)
class Observation:
    """Everything a step depends on beside intent, state and time.

    `ready` are ready pods by revision, AR included. `in_force` says whether every ready gateway has the routes of this
    state in force. `readings` and `crashes` are by revision; a revision without a reading could not be read. `runs` is
    what the step before returned, to be kept in memory only: a process that has just started has none, which is why time
    in which nobody looked does not count; nor does a process that ended before the first reading of a step leave the begin
    of it, which is in `starts` until then, by revision. `is_measured`: metrics were read for this pass. False between two looks, when
    something else woke the operator: time and verdicts then stay as they are, and only what needs no metrics is decided.
    """

    ready: Mapping[str, int] = field(default_factory=dict)
    in_force: bool = True
    readings: Mapping[str, Reading] = field(default_factory=dict)
    crashes: Mapping[str, Crashes] = field(default_factory=dict)
    runs: Mapping[str, Run] = field(default_factory=dict)
    starts: Mapping[str, datetime] = field(default_factory=dict)
    is_measured: bool = True


def are_answered(readings: Mapping[str, Reading], state: RolloutState, *, starts: Mapping[str, datetime]) -> bool:
    """Whether the readings are of the steps that are observed now, all of them."""
    begins = begins_of(state, starts)
    return all(revision in readings and readings[revision].window.since == since for revision, since in begins.items())
