"""What the operator tells about itself."""

from collections import Counter
from collections.abc import Iterable
from datetime import datetime

from prometheus_client import CollectorRegistry, Gauge, Histogram
from prometheus_client import Counter as CounterMetric

from diffusion_operator.api.models import Phase, RolloutState
from diffusion_operator.api.rollout import GateName, Outcome, RolloutPhase
from diffusion_operator.core.gates import GateLimits

_MODEL = ["model_namespace", "model"]  # Prometheus would rename `namespace`


class Metrics:
    """All metrics of one operator."""

    def __init__(self) -> None:
        self.registry = CollectorRegistry()
        self.reconciles = CounterMetric(
            "diffusion_operator_reconciles",
            "Passes over a resource, by how they ended: ok, gone, rejected, conflict, transient, error.",
            ["outcome"],
            registry=self.registry,
        )
        self.reconcile_seconds = Histogram(
            "diffusion_operator_reconcile_seconds",
            "Time of one pass over a resource.",
            buckets=(0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30),
            registry=self.registry,
        )
        self.writes = CounterMetric(
            "diffusion_operator_writes",
            "Writes to the API server. An idle operator makes none.",
            ["verb", "kind"],
            registry=self.registry,
        )
        self.models = Gauge("diffusion_operator_models", "Resources by phase.", ["phase"], registry=self.registry)
        self.overdue = Gauge(
            "diffusion_operator_overdue_loops",
            "Resources whose loop has not ticked for too long. Liveness fails while there are any.",
            registry=self.registry,
        )

        self.rollout_phase = Gauge(
            "diffusion_operator_rollout_phase",
            "1 for the phase of each rollout.",
            [*_MODEL, "phase"],
            registry=self.registry,
        )
        self.rollout_percent = Gauge(
            "diffusion_operator_rollout_percent", "Weight of the canary, 0 to 100.", _MODEL, registry=self.registry
        )
        self.diffusion_percent = Gauge(
            "diffusion_operator_diffusion_percent", "Weight of diffusion, 0 to 100.", _MODEL, registry=self.registry
        )
        self.rollout_held = Gauge(
            "diffusion_operator_rollout_held_seconds",
            "For how long the step has no verdict that moves it; 0 when it is not held.",
            _MODEL,
            registry=self.registry,
        )
        self.gate_verdict = Gauge(
            "diffusion_operator_gate_verdict",
            "1 for what each gate says: Pass, Fail, Inconclusive or Error.",
            [*_MODEL, "gate", "verdict"],
            registry=self.registry,
        )
        self.metrics_unreadable = Gauge(
            "diffusion_operator_metrics_unreadable",
            "1 where a gate has no data: no time counts and no weight moves by itself.",
            _MODEL,
            registry=self.registry,
        )
        self.first_token_limit = Gauge(
            "diffusion_operator_first_token_limit_seconds",
            "The limit of the gate on time to first token, for its 95th percentile.",
            _MODEL,
            registry=self.registry,
        )

    def show(self, namespace: str, name: str, state: RolloutState, *, limits: GateLimits, now: datetime) -> None:
        """Set what is told of one rollout. `limits` are those in force, empty while there is nothing to roll out."""
        if first_token := limits.get(GateName.TIME_TO_FIRST_TOKEN):
            self.first_token_limit.labels(namespace, name).set(first_token.highest)
        for phase in RolloutPhase:
            self.rollout_phase.labels(namespace, name, phase.value).set(state.phase is phase)
        self.rollout_percent.labels(namespace, name).set(state.canary_percent)
        self.diffusion_percent.labels(namespace, name).set(state.diffusion_percent)
        held = (now - state.held_since).total_seconds() if state.held_since else 0.0
        self.rollout_held.labels(namespace, name).set(max(0.0, held))
        is_observed = state.stable is not None or state.canary is not None
        verdicts = {gate.gate: gate.verdict for gate in state.gates} if is_observed else {}
        for gate in GateName:
            for outcome in Outcome:
                self.gate_verdict.labels(namespace, name, gate.value, outcome.value).set(verdicts.get(gate) is outcome)
        self.metrics_unreadable.labels(namespace, name).set(Outcome.ERROR in verdicts.values())

    def forget(self, namespace: str, name: str) -> None:
        """A resource is gone, and so are its series."""
        by_model = {"model_namespace": namespace, "model": name}
        for gauge in (
            self.rollout_phase,
            self.rollout_percent,
            self.diffusion_percent,
            self.rollout_held,
            self.gate_verdict,
            self.metrics_unreadable,
            self.first_token_limit,
        ):
            gauge.remove_by_labels(by_model)

    def count_models(self, phases: Iterable[Phase | None]) -> None:
        """Set the number of resources in each phase."""
        counted = Counter(phases)
        for phase in Phase:
            self.models.labels(phase=phase.value).set(counted[phase])
