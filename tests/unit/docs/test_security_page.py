"""docs/security.md names every right that the chart's roles give."""

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[3]
PAGE = (ROOT / "docs" / "security.md").read_text()
TEMPLATES = ROOT / "charts" / "diffusion-operator" / "templates"


def granted(program: str) -> set[str]:
    text = (TEMPLATES / program / "rbac.yaml").read_text()
    return {name for names in re.findall(r"^  resources: \[(.+)\]$", text, re.MULTILINE) for name in names.split(", ")}


def told(program: str) -> set[str]:
    rows = re.findall(rf"^\| {program} \| ([^|]+) \|", PAGE, re.MULTILINE)
    return {name for row in rows for name in re.findall(r"`([a-z/]+)`", row)}


@pytest.mark.parametrize("program", ["operator", "gateway"])
def test_the_page_has_every_right_and_no_other(program: str) -> None:
    assert granted(program)
    assert told(program) == granted(program)
