"""The alerts fire when they should, and only then: checked and run by Prometheus' own promtool."""

import re
import subprocess
from dataclasses import dataclass, field
from pathlib import Path

import pytest
import yaml

from cluster import tools
from tests.chart.chart import CHART, ROOT
from tests.chart.metric_names import known, named

RULES = CHART / "files" / "alerts.yaml"
ALERTS = {rule["alert"]: rule for group in yaml.safe_load(RULES.read_text())["groups"] for rule in group["rules"]}
OF = 'model_namespace="stories",model="teller"'
OPERATOR_IS_UP = {"diffusion_operator_overdue_loops": "0x200"}


@dataclass(frozen=True)
class Case:
    """What the metrics say each minute (promtool's notation), and how many alerts fire after `minutes`."""

    alert: str
    series: dict[str, str]
    minutes: int
    firing: int = 1
    labels: dict[str, str] = field(default_factory=lambda: {"model_namespace": "stories", "model": "teller"})


def first_tokens(slow: int) -> dict[str, str]:
    """Of 100 first texts a minute, `slow` take longer than the limit of half a second."""
    bucket = f"diffusion_gateway_time_to_first_token_seconds_bucket{{{OF}"
    return {
        f'{bucket},le="0.5"}}': f"0+{100 - slow}x200",
        f'{bucket},le="1"}}': "0+100x200",
        f'{bucket},le="+Inf"}}': "0+100x200",
        f"diffusion_operator_first_token_limit_seconds{{{OF}}}": "0.5x200",
    }


def verdict(outcome: str) -> dict[str, str]:
    """One gate's verdict."""
    return {
        f'diffusion_operator_gate_verdict{{{OF},gate="errorRate",verdict="{one}"}}': f"{int(one == outcome)}x200"
        for one in ("Pass", "Fail", "Inconclusive", "Error")
    }


def fallbacks(each_minute: int) -> dict[str, str]:
    """Of 100 requests a minute."""
    return {
        f'diffusion_gateway_fallbacks_total{{{OF},kind="diffusion",reason="timeout"}}': f"0+{each_minute}x200",
        f'diffusion_gateway_arm_requests_total{{{OF},kind="diffusion"}}': "0+100x200",
    }


def pairs(compared: int, dropped: int) -> dict[str, str]:
    """Each minute."""
    return {
        f"diffusion_gateway_pairs_total{{{OF}}}": f"0+{compared}x200",
        f'diffusion_gateway_pairs_dropped_total{{{OF},reason="scorer"}}': f"0+{dropped}x200",
    }


def phase(name: str) -> dict[str, str]:
    """Of the rollout."""
    return {f'diffusion_operator_rollout_phase{{{OF},phase="{name}"}}': "1x200"}


def answered(well: int, badly: int, *, code: str = "503") -> dict[str, str]:
    """Requests a minute; one that the model's name is not known of is no model's fault."""
    return {
        f'diffusion_gateway_requests_total{{{OF},arm="fallback",code="200"}}': f"0+{well}x200",
        f'diffusion_gateway_requests_total{{{OF},arm="",code="{code}"}}': f"0+{badly}x200",
        'diffusion_gateway_requests_total{model_namespace="",model="",arm="",code="500"}': "0+100x200",
    }


HELD = f"diffusion_operator_rollout_held_seconds{{{OF}}}"
UNREADABLE = f"diffusion_operator_metrics_unreadable{{{OF}}}"
BREAKER = f'diffusion_gateway_breaker_open{{{OF},revision="r",kind="diffusion"}}'
AR_PODS = f'diffusion_gateway_ready_pods{{{OF},kind="ar"}}'
MEMORY = 'dlm_out_of_memory_total{model="teller",revision="r",kind="diffusion"}'

GATEWAY = "diffusion_gateway_connections"

CASES = {
    "one request in ten fails": Case("DiffusionRequestsFailing", answered(90, 10), 15),
    "one stream in ten breaks off": Case("DiffusionRequestsFailing", answered(90, 10, code="502"), 15),
    "every request fails": Case("DiffusionRequestsFailing", answered(0, 100), 15),
    "one request in a hundred fails": Case("DiffusionRequestsFailing", answered(99, 1), 15, firing=0),
    "one request in ten is too many": Case("DiffusionRequestsFailing", answered(90, 10, code="429"), 15, firing=0),
    "no gateway is scraped": Case("DiffusionGatewayDown", OPERATOR_IS_UP, 10, labels={}),
    "a gateway is idle": Case("DiffusionGatewayDown", {GATEWAY: "0x200"}, 10, firing=0),
    "6 % of the first texts are late": Case("DiffusionFirstTokenSlow", first_tokens(6), 25),
    "4 % of the first texts are late": Case("DiffusionFirstTokenSlow", first_tokens(4), 25, firing=0),
    "first texts are late for a moment": Case("DiffusionFirstTokenSlow", first_tokens(6), 5, firing=0),
    "a gate fails": Case(
        "DiffusionGateFailing",
        verdict("Fail"),
        1,
        labels={"model_namespace": "stories", "model": "teller", "gate": "errorRate"},
    ),
    "a gate is inconclusive": Case("DiffusionGateFailing", verdict("Inconclusive"), 1, firing=0),
    "a rollback has nowhere to go": Case("DiffusionRollbackBlocked", phase("RollbackBlocked"), 3),
    "a revision was rolled back": Case("DiffusionRolledBack", phase("RolledBack"), 1),
    "a revision is promoted": Case("DiffusionRolledBack", phase("Promoted"), 1, firing=0),
    "a step is held for seven hours": Case("DiffusionRolloutHeld", {HELD: "25200x200"}, 1),
    "a step is held for an hour": Case("DiffusionRolloutHeld", {HELD: "3600x200"}, 1, firing=0),
    "a gate has no data": Case("DiffusionNoData", {UNREADABLE: "1x200"}, 20),
    "a gate had no data for a moment": Case("DiffusionNoData", {UNREADABLE: "1x10 0x190"}, 20, firing=0),
    "diffusion gives up one request in ten": Case("DiffusionFallbackShareHigh", fallbacks(10), 40),
    "diffusion gives up one request in a hundred": Case("DiffusionFallbackShareHigh", fallbacks(1), 40, firing=0),
    "a breaker is open": Case(
        "DiffusionBreakerOpen",
        {BREAKER: "1x200"},
        6,
        labels={"model_namespace": "stories", "model": "teller", "revision": "r", "kind": "diffusion"},
    ),
    "a breaker was open for a minute": Case("DiffusionBreakerOpen", {BREAKER: "1x1 0x199"}, 6, firing=0),
    "AR has no pod": Case("DiffusionFallbackDown", {AR_PODS: "0x200"}, 6),
    "AR has a pod": Case("DiffusionFallbackDown", {AR_PODS: "1x200"}, 6, firing=0),
    "more samples are dropped than compared": Case("DiffusionPairsMissing", pairs(2, 5), 150),
    "all samples are dropped": Case("DiffusionPairsMissing", pairs(0, 5), 150),
    "few samples are dropped": Case("DiffusionPairsMissing", pairs(5, 2), 150, firing=0),
    "a loop does not tick": Case(
        "DiffusionOperatorOverdue", {"diffusion_operator_overdue_loops": "3x200"}, 6, labels={}
    ),
    "all loops tick": Case("DiffusionOperatorOverdue", OPERATOR_IS_UP, 6, firing=0),
    "the operator is gone": Case("DiffusionOperatorDown", {UNREADABLE: "0x200"}, 15, labels={}),
    "the operator is there": Case("DiffusionOperatorDown", OPERATOR_IS_UP, 15, firing=0),
    "a worker ran out of memory": Case(
        "DiffusionWorkerOutOfMemory",
        {MEMORY: "0x10 1x200"},
        15,
        labels={"model": "teller", "revision": "r", "kind": "diffusion"},
    ),
    "a worker ran out of memory yesterday": Case("DiffusionWorkerOutOfMemory", {MEMORY: "7x200"}, 60, firing=0),
}


def promtool(*arguments: str) -> str:
    done = subprocess.run([str(tools.path("promtool")), *arguments], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def test_promtool_finds_no_fault():
    assert f"{len(ALERTS)} rules found" in promtool("check", "rules", "--lint=all", "--lint-fatal", str(RULES))


def test_alerts_fire_when_they_should_and_only_then(tmp_path: Path):
    tests = []
    for name, case in CASES.items():
        labels = {"alertname": case.alert, "alertstate": "firing", **ALERTS[case.alert]["labels"], **case.labels}
        shown = ", ".join(f'{key}="{value}"' for key, value in labels.items())
        tests.append(
            {
                "name": name,
                "interval": "1m",
                "input_series": [{"series": key, "values": values} for key, values in case.series.items()],
                "promql_expr_test": [
                    {
                        "expr": f'ALERTS{{alertname="{case.alert}", alertstate="firing"}}',
                        "eval_time": f"{case.minutes}m",
                        "exp_samples": [{"labels": f"ALERTS{{{shown}}}", "value": 1}] * case.firing,
                    }
                ],
            }
        )
    file = tmp_path / "alerts.test.yaml"
    file.write_text(yaml.safe_dump({"rule_files": [str(RULES)], "evaluation_interval": "1m", "tests": tests}))
    assert "SUCCESS" in promtool("test", "rules", str(file))


def test_every_alert_was_seen_to_fire():
    assert {case.alert for case in CASES.values() if case.firing} == ALERTS.keys()


@pytest.mark.parametrize("alert", ALERTS)
def test_an_alert_is_about_metrics_that_there_are(alert: str):
    assert named(ALERTS[alert]["expr"])
    assert named(ALERTS[alert]["expr"]) <= known()


@pytest.mark.parametrize("alert", ALERTS)
def test_an_alert_says_what_it_means_and_links_to_what_to_do(alert: str):
    said = ALERTS[alert]["annotations"]
    assert said.keys() == {"summary", "description", "runbook_url"}
    page, _, heading = said["runbook_url"].partition("#")
    headings = re.findall(r"^#+ (.+)$", (ROOT / page).read_text(), re.MULTILINE)
    assert heading in {text.lower() for text in headings}
