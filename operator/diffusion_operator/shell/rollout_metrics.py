"""What is told of each rollout, made up when somebody asks.

A gauge of prometheus_client takes a kilobyte for each combination of its labels: for a thousand models that would be more
than all else that the operator knows of them.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from datetime import datetime

from prometheus_client.core import GaugeMetricFamily, Metric
from prometheus_client.registry import Collector

from diffusion_operator.adapters import clock
from diffusion_operator.api.models import RolloutState
from diffusion_operator.api.rollout import Outcome, RolloutPhase
from diffusion_operator.core.gates import GateLimits, GateName

_MODEL = ("model_namespace", "model")  # Prometheus would rename `namespace`


@dataclass(frozen=True, slots=True)
class _Told:
    """Of one rollout. `verdicts` are empty while nothing is observed."""

    phase: RolloutPhase
    percent: int
    diffusion_percent: int
    held_since: datetime | None
    verdicts: tuple[tuple[str, Outcome], ...]
    first_token_limit: float | None

    def held_seconds(self, now: datetime) -> float:
        return max(0.0, (now - self.held_since).total_seconds()) if self.held_since else 0.0


class RolloutMetrics(Collector):
    """Gauges of all rollouts."""

    def __init__(self) -> None:
        self._told: dict[tuple[str, str], _Told] = {}

    def show(self, namespace: str, name: str, state: RolloutState, *, limits: GateLimits) -> None:
        """Set what is told of one rollout. `limits` are those in force, empty while there is nothing to roll out."""
        first_token = limits.get(GateName.TIME_TO_FIRST_TOKEN)
        is_observed = state.stable is not None or state.canary is not None
        self._told[namespace, name] = _Told(
            phase=state.phase,
            percent=state.canary_percent,
            diffusion_percent=state.diffusion_percent,
            held_since=state.held_since,
            verdicts=tuple((gate.gate, gate.verdict) for gate in state.gates) if is_observed else (),
            first_token_limit=first_token.highest if first_token else None,
        )

    def forget(self, namespace: str, name: str) -> None:
        """A resource is gone, and so are its series."""
        self._told.pop((namespace, name), None)

    def describe(self) -> Iterator[Metric]:
        """The families, without samples."""
        yield from _families()

    def collect(self) -> Iterator[Metric]:
        """The families as they are now."""
        now = clock.now()
        phase, percent, diffusion, held, verdict, unreadable, limit = families = _families()
        for model, told in self._told.items():
            phase.add_metric((*model, told.phase), 1)
            percent.add_metric(model, told.percent)
            diffusion.add_metric(model, told.diffusion_percent)
            held.add_metric(model, told.held_seconds(now))
            for gate, outcome in told.verdicts:
                verdict.add_metric((*model, gate, outcome), 1)
            unreadable.add_metric(model, any(outcome is Outcome.ERROR for _, outcome in told.verdicts))
            if told.first_token_limit is not None:
                limit.add_metric(model, told.first_token_limit)
        yield from families


def _families() -> tuple[GaugeMetricFamily, ...]:
    texts = (
        ("rollout_phase", "1 for the phase of each rollout. There is no series for the others.", ("phase",)),
        ("rollout_percent", "Weight of the canary, 0 to 100.", ()),
        ("diffusion_percent", "Weight of diffusion, 0 to 100.", ()),
        (
            "rollout_held_seconds",
            "For how long the step has no verdict that moves it; 0 when it is not held.",
            (),
        ),
        (
            "gate_verdict",
            "1 for what each gate says: Pass, Fail, Inconclusive or Error. There is no series for the others.",
            ("gate", "verdict"),
        ),
        ("metrics_unreadable", "1 where a gate has no data: no time counts and no weight moves by itself.", ()),
        (
            "first_token_limit_seconds",
            "The limit of the gate on time to first token, for its 95th percentile.",
            (),
        ),
    )
    return tuple(
        GaugeMetricFamily(f"diffusion_operator_{name}", text, labels=(*_MODEL, *more)) for name, text, more in texts
    )
