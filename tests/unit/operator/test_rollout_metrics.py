"""What the operator tells of each rollout."""

from datetime import UTC, datetime, timedelta

import pytest
from diffusion_operator.adapters import clock
from diffusion_operator.api.rollout import RolloutPhase, RolloutState
from diffusion_operator.core.gates import GateLimit, GateName
from diffusion_operator.shell.metrics import Metrics
from prometheus_client.parser import text_string_to_metric_families

from tests.unit.rollout.builders import observed

NOW = datetime(2026, 1, 1, tzinfo=UTC)
OF = 'model="storyteller",model_namespace="stories"'


def page(metrics: Metrics) -> str:
    return metrics.page().decode()


def test_a_rollout_is_told_by_its_phase_weight_and_verdicts() -> None:
    metrics = Metrics()
    limits = {GateName.TIME_TO_FIRST_TOKEN: GateLimit(0.5, 200)}
    metrics.rollouts.show("stories", "storyteller", observed().looks(60).state, limits=limits)
    text = page(metrics)
    assert f'diffusion_operator_rollout_phase{{{OF},phase="Observing"}} 1.0' in text
    assert f"diffusion_operator_rollout_percent{{{OF}}} 40.0" in text
    assert f'gate="repetitionRate",{OF},verdict="Pass"}} 1.0' in text
    assert 'verdict="Fail"' not in text
    assert f"diffusion_operator_metrics_unreadable{{{OF}}} 0.0" in text
    assert f"diffusion_operator_first_token_limit_seconds{{{OF}}} 0.5" in text


def test_how_long_it_is_held_is_true_at_the_moment_of_the_question(monkeypatch: pytest.MonkeyPatch) -> None:
    metrics = Metrics()
    state = RolloutState(phase=RolloutPhase.HELD, held_since=NOW)
    metrics.rollouts.show("stories", "storyteller", state, limits={})
    for seconds in (60, 3600):
        monkeypatch.setattr(clock, "now", lambda seconds=seconds: NOW + timedelta(seconds=seconds))
        assert f"diffusion_operator_rollout_held_seconds{{{OF}}} {seconds}.0" in page(metrics)


def test_a_resource_that_is_gone_has_no_series() -> None:
    metrics = Metrics()
    metrics.rollouts.show("stories", "storyteller", RolloutState(), limits={})
    metrics.rollouts.forget("stories", "storyteller")
    assert "storyteller" not in page(metrics)


def test_all_that_is_told_of_a_thing_stands_together_and_what_did_not_change_is_told_again() -> None:
    metrics = Metrics()
    metrics.rollouts.show("stories", "steady", observed().looks(60).state, limits={})
    metrics.rollouts.show("stories", "promoted", RolloutState(phase=RolloutPhase.OBSERVING), limits={})
    before = page(metrics)
    metrics.rollouts.show("stories", "steady", observed().looks(60).state, limits={})
    metrics.rollouts.show("stories", "promoted", RolloutState(phase=RolloutPhase.PROMOTED), limits={})
    after = page(metrics)
    assert before.replace('model="promoted",model_namespace="stories",phase="Observing"', "changed") == after.replace(
        'model="promoted",model_namespace="stories",phase="Promoted"', "changed"
    )
    families = list(text_string_to_metric_families(after))
    assert len({family.name for family in families}) == len(families)
    (phases,) = [family for family in families if family.name == "diffusion_operator_rollout_phase"]
    assert {(one.labels["model"], one.labels["phase"]) for one in phases.samples} == {
        ("steady", "Observing"),
        ("promoted", "Promoted"),
    }
