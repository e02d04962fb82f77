"""What docs/install.md and docs/upgrade.md tell people to type works."""

import re
import shlex
from typing import Any

import pytest
import yaml
from lupa import lua51

from tests.chart.chart import CHART, ROOT, helm

INSTALL = (ROOT / "docs" / "install.md").read_text()
DOCS = {
    "install.md": INSTALL,
    "upgrade.md": (ROOT / "docs" / "upgrade.md").read_text(),
    "README.md of the chart": (CHART / "README.md").read_text(),
}
COMMANDS = [
    (name, command.replace("\\\n", " "))
    for name, text in DOCS.items()
    for block in re.findall(r"```console\n(.*?)```", text, re.DOTALL)
    for command in re.findall(r"^helm (?:upgrade|install) (?:[^\n]*\\\n)*[^\n]*$", block, re.MULTILINE)
]
NOT_FOR_TEMPLATE = {"upgrade", "install", "--install", "--reset-then-reuse-values", "--wait"}


def test_every_document_has_a_command_that_is_checked():
    assert {name for name, _ in COMMANDS} == DOCS.keys()


@pytest.mark.parametrize(("name", "command"), COMMANDS)
def test_every_helm_command_renders(name: str, command: str):
    _, *arguments = shlex.split(command)
    given = [argument for argument in arguments if argument not in NOT_FOR_TEMPLATE]
    given = [str(CHART) if argument == "charts/diffusion-operator" else argument for argument in given]
    # An upgrade takes the registry from the release that is there.
    known = [] if any("image.registry=" in argument for argument in given) else ["--set=image.registry=r.example.com"]
    assert "kind: Deployment" in helm("template", *given, *known)


def test_every_value_that_the_documents_name_exists():
    values = yaml.safe_load((CHART / "values.yaml").read_text())
    pattern = r"`(?:--set )?((?:" + "|".join(values) + r")(?:\.\w+)+)[=`]"
    named = {path for text in DOCS.values() for path in re.findall(pattern, text)}
    assert len(named) > 10
    for path in named:
        found: Any = values
        for part in path.split("."):
            assert part in found, f"{path} is not in values.yaml"
            found = found[part]


def health(resource: dict[str, Any]) -> dict[str, str]:
    """What the health check for Argo CD (which runs Lua 5.1) answers."""
    (block,) = (text for text in re.findall(r"```yaml\n(.*?)```", INSTALL, re.DOTALL) if "customizations" in text)
    (script,) = yaml.safe_load(block)["data"].values()
    runtime = lua51.LuaRuntime()
    check = runtime.eval(
        "function(script, obj) return setfenv(loadstring(script), setmetatable({obj = obj}, {__index = _G}))() end"
    )
    return dict(check(script, runtime.table_from(resource, recursive=True)))


def resource(*, phase: str = "Serving", generation: int = 2, **conditions: str) -> dict[str, Any]:
    """A DiffusionModel of generation 2 with the given conditions, each with its name as the message."""
    listed = [{"type": name, "status": status, "message": f"about {name}"} for name, status in conditions.items()]
    status = {"phase": phase, "observedGeneration": generation, "conditions": listed}
    return {"metadata": {"generation": 2}, "status": status}


@pytest.mark.parametrize(
    ("given", "expected", "message"),
    [
        pytest.param({"metadata": {"generation": 1}}, "Progressing", "not seen", id="new"),
        pytest.param(resource(generation=1, Ready="True"), "Progressing", "not seen", id="a spec not seen yet"),
        pytest.param(resource(), "Progressing", "first status", id="no condition yet"),
        pytest.param(resource(phase="Pending", Ready="False"), "Progressing", "about Ready", id="starting"),
        pytest.param(resource(Ready="True", Progressing="False"), "Healthy", "about Progressing", id="settled"),
        pytest.param(
            resource(phase="Progressing", Ready="True", Progressing="True"),
            "Healthy",
            "about Progressing",
            id="a rollout of weeks is healthy",
        ),
        pytest.param(
            resource(phase="Failed", Ready="False", Progressing="False"), "Degraded", "about Progressing", id="failed"
        ),
        pytest.param(
            resource(phase="Degraded", Ready="True", Progressing="True"), "Degraded", "about Progressing", id="degraded"
        ),
    ],
)
def test_argo_cd_sees_the_health_of_a_model(given: dict[str, Any], expected: str, message: str):
    answer = health(given)
    assert answer["status"] == expected
    assert message in answer["message"]
