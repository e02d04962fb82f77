"""From spec to numbers."""

import re

from diffusion_operator.api.crd import resource_schema
from diffusion_operator.api.models import DiffusionModelSpec
from diffusion_operator.core.gates import GateName
from diffusion_operator.core.rollout import Pace, Policy, scored_share
from diffusion_operator.core.rollout import policy as policy_of

from tests.unit.operator.test_crd import walk

SPEC = dict(walk(resource_schema()["properties"]["spec"]))


def spec(**parts: object) -> DiffusionModelSpec:
    return DiffusionModelSpec.model_validate(
        {"model": {"source": "file:///a"}, "fallback": {"model": {"source": "file:///b"}}, **parts}
    )


def documented(path: str) -> str:
    found = re.search(r"Default: ([^ ]+)\.", SPEC[path]["description"])
    assert found
    return found[1]


def test_absent_fields_have_the_defaults_that_are_documented() -> None:
    made = policy_of(spec())
    gates = made.gates
    assert made == Policy(gates=gates)
    assert str(made.initial_percent) == documented(".rollout.initialPercent")
    assert str(made.step_percent) == documented(".rollout.stepPercent")
    assert f"{made.step_seconds / 3600:g}h" == documented(".rollout.stepDuration")
    assert f"{made.max_hold_seconds / 3600:g}h" == documented(".rollout.maxHold")
    assert f"{made.guard_seconds / 60:g}m" == documented(".rollout.gates.errorRate.window")
    assert gates[GateName.PERPLEXITY_RATIO].highest == float(documented(".rollout.gates.perplexityRatio.max"))
    assert gates[GateName.REPETITION_RATE].highest == float(documented(".rollout.gates.repetitionRate.max"))
    assert f"{gates[GateName.TIME_TO_FIRST_TOKEN].highest * 1000:g}ms" == documented(
        ".rollout.gates.timeToFirstToken.p95"
    )
    assert gates[GateName.LATENCY_RATIO].highest == float(documented(".rollout.gates.latencyRatio.max"))
    assert gates[GateName.ERROR_RATE].highest == float(documented(".rollout.gates.errorRate.max"))
    for gate, limit in gates.items():
        assert f"{limit.min_samples:g}" == documented(f".rollout.gates.{gate}.minSamples")
    assert f"{100 * scored_share(spec()):g}" == documented(".scoring.samplePercent")


def test_a_limit_of_zero_is_a_limit() -> None:
    made = policy_of(spec(rollout={"gates": {"errorRate": {"max": 0}}}))
    assert made.gates[GateName.ERROR_RATE].highest == 0


def test_without_scores_there_is_no_perplexity_gate() -> None:
    assert GateName.PERPLEXITY_RATIO not in policy_of(spec(scoring={"samplePercent": 0})).gates
    made = policy_of(spec(), can_score=False)
    assert set(policy_of(spec()).gates) - set(made.gates) == {GateName.PERPLEXITY_RATIO}


def test_looks_fit_the_length_of_a_step() -> None:
    assert Pace.of(Policy()).look_seconds == 300
    assert Pace.of(Policy(step_seconds=10)).look_seconds == 1
    assert Pace.of(Policy(step_seconds=300)).look_seconds == 3


def test_looks_that_a_busy_machine_delays_count_with_short_steps_too() -> None:
    assert Pace.of(Policy(step_seconds=10)).longest_gap_seconds == 20
    assert Pace.of(Policy()).longest_gap_seconds == 1200
