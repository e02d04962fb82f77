"""The Grafana dashboard of the chart, made from the list of panels below.

`python charts/dashboard.py` writes it, `--check` exits with 1 when it is out of date.
"""

import argparse
import json
import sys
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

TARGET = Path(__file__).resolve().parent / "diffusion-operator" / "files" / "dashboard.json"

_MODEL = 'model_namespace=~"$namespace", model=~"$model"'
_BY_MODEL = "model_namespace, model"
_WIDTH, _HEIGHT = 8, 8  # a third of Grafana's 24 columns


@dataclass(frozen=True, kw_only=True)
class Panel:
    """One graph: PromQL by the legend of its lines. `$of` stands for the labels that the variables choose."""

    title: str
    description: str
    queries: dict[str, str]
    unit: str = "short"
    most: float | None = None


@dataclass(frozen=True, kw_only=True)
class Row:
    """A heading with its panels."""

    title: str
    panels: list[Panel] = field(default_factory=list)


def _rate(metric: str, by: str, *, more: str = "") -> str:
    return f"sum by ({by}) (rate({metric}{{$of{more}}}[$__rate_interval]))"


def _quantile(q: float, histogram: str, by: str) -> str:
    return f"histogram_quantile({q}, {_rate(f'{histogram}_bucket', f'{by}, le')})"


def _share(part: str, whole: str, by: str, *, more: str = "") -> str:
    return f"{_rate(part, by, more=more)} / {_rate(whole, by, more=more)}"


ROWS = [
    Row(
        title="Rollout",
        panels=[
            Panel(
                title="Weight",
                description="Share of the traffic that diffusion gets, and the canary's part of it.",
                queries={
                    "{{model}} diffusion": f"max by ({_BY_MODEL}) (diffusion_operator_diffusion_percent{{$of}})",
                    "{{model}} canary": f"max by ({_BY_MODEL}) (diffusion_operator_rollout_percent{{$of}})",
                },
                unit="percent",
                most=100,
            ),
            Panel(
                title="Verdicts",
                description="What each gate says now. Only Fail rolls back; Error is no data.",
                queries={
                    "{{gate}}: {{verdict}}": "max by (model_namespace, model, gate, verdict) "
                    "(diffusion_operator_gate_verdict{$of}) == 1"
                },
            ),
            Panel(
                title="Held for",
                description="How long the step has had no verdict that moves it.",
                queries={"{{model}}": f"max by ({_BY_MODEL}) (diffusion_operator_rollout_held_seconds{{$of}})"},
                unit="s",
            ),
        ],
    ),
    Row(
        title="What clients see",
        panels=[
            Panel(
                title="Requests",
                description="By HTTP code.",
                queries={"{{code}}": _rate("diffusion_gateway_requests_total", "code")},
                unit="reqps",
            ),
            Panel(
                title="Time to first text, p95",
                description="From the request's arrival, by the arm that answered; the limit is that of the gate.",
                queries={
                    "{{arm}} {{revision}}": _quantile(
                        0.95, "diffusion_gateway_time_to_first_token_seconds", "arm, revision"
                    ),
                    "limit {{model}}": f"max by ({_BY_MODEL}) (diffusion_operator_first_token_limit_seconds{{$of}})",
                },
                unit="s",
            ),
            Panel(
                title="Whole answer, p50 and p95",
                description="From the request's arrival to the end of the answer.",
                queries={
                    "p50 {{arm}}": _quantile(0.5, "diffusion_gateway_request_duration_seconds", "arm"),
                    "p95 {{arm}}": _quantile(0.95, "diffusion_gateway_request_duration_seconds", "arm"),
                },
                unit="s",
            ),
        ],
    ),
    Row(
        title="Arms",
        panels=[
            Panel(
                title="Failed requests",
                description="Share of what an arm is asked that it fails, whether or not another arm took over.",
                queries={
                    "{{arm}} {{revision}}": _share(
                        "diffusion_gateway_arm_failed_requests_total",
                        "diffusion_gateway_arm_requests_total",
                        "arm, revision",
                    )
                },
                unit="percentunit",
            ),
            Panel(
                title="Fallbacks",
                description="Requests that went on to another arm before the client saw anything, by why.",
                queries={"{{arm}}: {{reason}}": _rate("diffusion_gateway_fallbacks_total", "arm, reason")},
                unit="reqps",
            ),
            Panel(
                title="Pods",
                description="Ready pods of each arm, and those that a breaker leaves out.",
                queries={
                    "{{arm}} ready": "max by (arm) (diffusion_gateway_ready_pods{$of})",
                    "{{arm}} left out": "max by (arm) (diffusion_gateway_breaker_open{$of})",
                },
            ),
            Panel(
                title="Mean time of an answer by its length",
                description="From asking the arm to its last event; compare the arms at the same length only.",
                queries={
                    "{{kind}} {{length}}": _share(
                        "diffusion_gateway_answer_seconds_total", "diffusion_gateway_answers_total", "kind, length"
                    )
                },
                unit="s",
            ),
            Panel(
                title="Tokens",
                description="Output tokens of complete answers.",
                queries={"{{arm}}": _rate("diffusion_gateway_output_tokens_total", "arm")},
                unit="short",
            ),
            Panel(
                title="Sent to AR by a rule",
                description="Short, causal or structured work, whatever the weights say.",
                queries={"{{rule}}": _rate("diffusion_gateway_ruled_requests_total", "rule")},
                unit="reqps",
            ),
        ],
    ),
    Row(
        title="Quality",
        panels=[
            Panel(
                title="Perplexity ratio",
                description="Diffusion over AR on the same prompts, over an hour.",
                queries={
                    "{{revision}}": "exp((sum by (revision) (rate(diffusion_gateway_pair_nll_above_total{$of}[1h]))"
                    " - sum by (revision) (rate(diffusion_gateway_pair_nll_below_total{$of}[1h])))"
                    " / sum by (revision) (rate(diffusion_gateway_pairs_total{$of}[1h])))"
                },
            ),
            Panel(
                title="Repeating answers",
                description="Share of the checked answers that repeat themselves.",
                queries={
                    "{{kind}} {{revision}}": _share(
                        "diffusion_gateway_repeating_answers_total",
                        "diffusion_gateway_checked_answers_total",
                        "kind, revision",
                    )
                },
                unit="percentunit",
            ),
            Panel(
                title="Pairs",
                description="Answers compared with AR, and samples that became no pair.",
                queries={
                    "compared": "sum (rate(diffusion_gateway_pairs_total{$of}[$__rate_interval]))",
                    "dropped: {{reason}}": _rate("diffusion_gateway_pairs_dropped_total", "reason"),
                },
                unit="reqps",
            ),
        ],
    ),
    Row(
        title="Operator",
        panels=[
            Panel(
                title="Models by phase",
                description="All models of the operator, whatever is chosen above.",
                queries={"{{phase}}": "max by (phase) (diffusion_operator_models)"},
            ),
            Panel(
                title="Passes",
                description="By how they ended.",
                queries={
                    "{{outcome}}": "sum by (outcome) (rate(diffusion_operator_reconciles_total[$__rate_interval]))"
                },
                unit="ops",
            ),
            Panel(
                title="Prometheus, as the operator sees it",
                description="Readings that gave nothing usable, by why, and the slow end of the queries.",
                queries={
                    "{{reason}}": "sum by (reason) (rate(diffusion_operator_prometheus_failures_total[$__rate_interval])) > 0",
                    "p95 seconds": "histogram_quantile(0.95, sum by (le) "
                    "(rate(diffusion_operator_prometheus_query_seconds_bucket[$__rate_interval])))",
                },
            ),
        ],
    ),
]


def dashboard() -> dict[str, Any]:
    """The dashboard in Grafana's JSON."""
    panels: list[dict[str, Any]] = []
    y = 0
    for row in ROWS:
        panels.append(
            {
                "id": len(panels) + 1,
                "type": "row",
                "title": row.title,
                "collapsed": False,
                "gridPos": {"x": 0, "y": y, "w": 24, "h": 1},
                "panels": [],
            }
        )
        y += 1
        for n, panel in enumerate(row.panels):
            place = {"x": _WIDTH * (n % 3), "y": y + _HEIGHT * (n // 3), "w": _WIDTH, "h": _HEIGHT}
            panels.append(_graph(panel, number=len(panels) + 1, place=place))
        y += _HEIGHT * -(-len(row.panels) // 3)
    return {
        "uid": "diffusion-models",
        "title": "Diffusion models",
        "tags": ["diffusion-operator"],
        "schemaVersion": 39,
        "editable": True,
        "timezone": "browser",
        "refresh": "30s",
        "time": {"from": "now-6h", "to": "now"},
        "templating": {"list": _variables()},
        "panels": panels,
    }


def _graph(panel: Panel, *, number: int, place: dict[str, int]) -> dict[str, Any]:
    defaults: dict[str, Any] = {"unit": panel.unit, "min": 0}
    if panel.most is not None:
        defaults["max"] = panel.most
    return {
        "id": number,
        "type": "timeseries",
        "title": panel.title,
        "description": panel.description,
        "datasource": {"type": "prometheus", "uid": "${datasource}"},
        "gridPos": place,
        "fieldConfig": {"defaults": defaults, "overrides": []},
        "options": {"tooltip": {"mode": "multi"}, "legend": {"displayMode": "list", "placement": "bottom"}},
        "targets": [
            {"refId": chr(ord("A") + n), "expr": query.replace("$of", _MODEL), "legendFormat": legend}
            for n, (legend, query) in enumerate(panel.queries.items())
        ],
    }


def _variables() -> list[dict[str, Any]]:
    def of(name: str, label: str, query: str) -> dict[str, Any]:
        return {
            "name": name,
            "label": label,
            "type": "query",
            "datasource": {"type": "prometheus", "uid": "${datasource}"},
            "query": query,
            "refresh": 2,
            "multi": True,
            "includeAll": True,
            "allValue": ".*",
            "current": {"text": "All", "value": "$__all"},
        }

    metric = "diffusion_gateway_routes_generation"
    return [
        {"name": "datasource", "label": "Prometheus", "type": "datasource", "query": "prometheus", "current": {}},
        of("namespace", "Namespace", f"label_values({metric}, model_namespace)"),
        of("model", "Model", f'label_values({metric}{{model_namespace=~"$namespace"}}, model)'),
    ]


def main() -> int:
    """Run from the command line; the exit status is 1 when --check finds the file out of date."""
    parser = argparse.ArgumentParser(description="Write the chart's Grafana dashboard.")
    parser.add_argument("--check", action="store_true", help="change nothing, exit with 1 when it is out of date")
    wanted = json.dumps(dashboard(), indent=2) + "\n"
    if parser.parse_args().check:
        is_current = TARGET.is_file() and TARGET.read_text() == wanted
        if not is_current:
            sys.stderr.write(f"{TARGET} is out of date: run python charts/dashboard.py\n")
        return int(not is_current)
    TARGET.write_text(wanted)
    return 0


if __name__ == "__main__":
    sys.exit(main())
