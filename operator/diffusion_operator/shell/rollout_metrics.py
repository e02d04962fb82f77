"""What is told of each rollout, made up when somebody asks.

A gauge of prometheus_client takes a kilobyte for each combination of its labels: for a thousand models that would be more
than all else that the operator knows of them. Its writer takes a seventh of a second for their twelve thousand lines, at each
scrape and on the event loop, so the lines of a rollout are kept until something of it changes.
"""

from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime
from functools import cached_property

from prometheus_client import generate_latest
from prometheus_client.core import GaugeMetricFamily, Metric
from prometheus_client.registry import Collector

from diffusion_operator.adapters import clock
from diffusion_operator.api.models import RolloutState
from diffusion_operator.api.rollout import Outcome, RolloutPhase
from diffusion_operator.core.gates import GateLimits, GateName

_MODEL = ("model_namespace", "model")  # Prometheus would rename `namespace`


@dataclass(frozen=True)
class _Told:
    """Of one rollout. `verdicts` are empty while nothing is observed."""

    model: tuple[str, str]
    phase: RolloutPhase
    percent: int
    diffusion_percent: int
    held_since: datetime | None
    verdicts: tuple[tuple[str, Outcome], ...]
    first_token_limit: float | None

    def samples(self) -> tuple[GaugeMetricFamily, ...]:
        """The families with its samples as they are now."""
        phase, percent, diffusion, held, verdict, unreadable, limit = families = _families()
        phase.add_metric((*self.model, self.phase), 1)
        percent.add_metric(self.model, self.percent)
        diffusion.add_metric(self.model, self.diffusion_percent)
        held.add_metric(self.model, max(0.0, (clock.now() - self.held_since).total_seconds()) if self.held_since else 0)
        for gate, outcome in self.verdicts:
            verdict.add_metric((*self.model, gate, outcome), 1)
        unreadable.add_metric(self.model, any(outcome is Outcome.ERROR for _, outcome in self.verdicts))
        if self.first_token_limit is not None:
            limit.add_metric(self.model, self.first_token_limit)
        return families

    def lines(self) -> tuple[bytes, ...]:
        """The same, written: its lines in each family."""
        return self._written if self.held_since is None else self._write()

    @cached_property
    def _written(self) -> tuple[bytes, ...]:
        return self._write()

    def _write(self) -> tuple[bytes, ...]:
        return tuple(_write(family).removeprefix(head) for family, head in zip(self.samples(), _HEADS, strict=True))


class RolloutMetrics:
    """Gauges of all rollouts."""

    def __init__(self) -> None:
        self._told: dict[tuple[str, str], _Told] = {}

    def show(self, namespace: str, name: str, state: RolloutState, *, limits: GateLimits) -> None:
        """Set what is told of one rollout. `limits` are those in force, empty while there is nothing to roll out."""
        first_token = limits.get(GateName.TIME_TO_FIRST_TOKEN)
        is_observed = state.stable is not None or state.canary is not None
        told = _Told(
            model=(namespace, name),
            phase=state.phase,
            percent=state.canary_percent,
            diffusion_percent=state.diffusion_percent,
            held_since=state.held_since,
            verdicts=tuple((gate.gate, gate.verdict) for gate in state.gates) if is_observed else (),
            first_token_limit=first_token.highest if first_token else None,
        )
        if self._told.get(told.model) != told:
            self._told[told.model] = told

    def forget(self, namespace: str, name: str) -> None:
        """A resource is gone, and so are its series."""
        self._told.pop((namespace, name), None)

    def describe(self) -> tuple[GaugeMetricFamily, ...]:
        """The families, without samples."""
        return _families()

    def page(self) -> bytes:
        """All rollouts as they are now, in the text format of Prometheus."""
        lines = [told.lines() for told in self._told.values()]
        return b"".join(head + b"".join(each[place] for each in lines) for place, head in enumerate(_HEADS))


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


class _Only(Collector):
    """For the library's writer."""

    def __init__(self, family: Metric) -> None:
        self._family = family

    def collect(self) -> Iterable[Metric]:
        return (self._family,)


def _write(family: Metric) -> bytes:
    return generate_latest(_Only(family))


_HEADS = tuple(_write(family) for family in _families())
