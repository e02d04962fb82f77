"""Rollouts on a model of traffic, in simulated time: the real state machine, drawn metrics."""

from .play import Played, Result, TimelineEntry, play
from .scenario import SCENARIOS, Scenario, Truth, truth
from .summary import Summary, percentile, summarise

__all__ = [
    "SCENARIOS",
    "Played",
    "Result",
    "Scenario",
    "Summary",
    "TimelineEntry",
    "Truth",
    "percentile",
    "play",
    "summarise",
    "truth",
]
