"""What the pages name is there: files, headings, metrics, fields, values of the chart. And the examples are valid."""

import re
import subprocess
from functools import cache
from pathlib import Path
from typing import Any

import pytest
import yaml
from diffusion_gateway.metrics import Metrics
from diffusion_operator.api.models import DiffusionModel

from docs.metrics_page import of_operator, of_registry, of_worker

ROOT = Path(__file__).parents[3]
CHART = ROOT / "charts" / "diffusion-operator"
_LISTED = ["git", "ls-files", "--cached", "--others", "--exclude-standard", "*.md"]
PAGES = sorted(
    ROOT / name for name in subprocess.run(_LISTED, cwd=ROOT, capture_output=True, text=True, check=True).stdout.split()
)
NAMED_BY_OTHERS = {"dlm_queue_seconds_p95"}  # prometheus-adapter's rule in docs/autoscaling.md makes it
FILES = {"model.json", "model.safetensors.index.json", "metrics.py"}  # look like fields of spec or values of the chart


def prose(page: Path) -> str:
    """The text without blocks of code."""
    return re.sub(r"```.*?```", "", page.read_text(), flags=re.DOTALL)


@cache
def anchors(page: Path) -> set[str]:
    """Of a page's headings, as GitHub makes them."""
    found: set[str] = set()
    for heading in re.findall(r"^#+ (.+)$", prose(page), re.MULTILINE):
        shown = re.sub(r"\[([^]]*)\]\([^)]*\)", r"\1", heading)
        base = re.sub(r"[^\w\- ]", "", shown.strip().lower()).replace(" ", "-")
        repeats = (f"{base}-{number}" for number in range(1, 100))
        found.add(base if base not in found else next(each for each in repeats if each not in found))
    return found


def metric_names() -> set[str]:
    rows = [*of_registry(Metrics().registry), *of_worker(), *of_operator()]
    parts = {
        f"{row.name}{suffix}" for row in rows if row.kind == "histogram" for suffix in ("_bucket", "_sum", "_count")
    }
    return {row.name for row in rows} | parts


def is_field(schema: dict[str, Any], path: str) -> bool:
    """Whether the CRD has a field, such as spec.routing.sticky or status.rollout.gates[].gate."""
    for part in path.split("."):
        schema = schema.get("items", schema).get("properties", {}).get(part.removesuffix("[]"))
        if schema is None:
            return False
    return True


def is_value(values: Any, path: str) -> bool:
    """Whether values.yaml has a value at a dotted path."""
    for part in path.split("."):
        if not isinstance(values, dict) or part not in values:
            return False
        values = values[part]
    return True


METRICS = metric_names()
VALUES = yaml.safe_load((CHART / "values.yaml").read_text())
CRD = yaml.safe_load((ROOT / "crds" / "serving.diffusion-operator.dev_diffusionmodels.yaml").read_text())
SCHEMA = CRD["spec"]["versions"][0]["schema"]["openAPIV3Schema"]
ROOTS = "|".join((*SCHEMA["properties"]["spec"]["properties"], *VALUES))


def test_there_are_pages() -> None:
    assert len(PAGES) > 25


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_every_link_leads_somewhere(page: Path) -> None:
    for target in re.findall(r"\]\(([^)\s]+)\)", prose(page)):
        if target.startswith("https://"):
            continue
        path, _, anchor = target.partition("#")
        other = (page.parent / path).resolve() if path else page
        assert other.exists(), target
        assert not anchor or anchor in anchors(other), target


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_every_metric_that_is_named_exists(page: Path) -> None:
    named = set(re.findall(r"\b(?:diffusion_(?:gateway|operator)|dlm)_[a-z0-9_]*[a-z0-9]\b(?![_{])", page.read_text()))
    assert named - METRICS - NAMED_BY_OTHERS == set()


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_every_field_and_every_value_of_the_chart_that_is_named_exists(page: Path) -> None:
    named = set(re.findall(r"`((?:spec|status)(?:\.[a-zA-Z]+(?:\[\])?)+)[:`]", page.read_text()))
    short = set(re.findall(rf"`((?:{ROOTS})(?:\.[a-zA-Z]+)+)[=:`]", page.read_text())) - FILES
    unknown = {path for path in named if not is_field(SCHEMA, path)}
    unknown |= {
        path
        for path in short
        if not (
            is_value(VALUES, path) or any(is_field(SCHEMA["properties"][half], path) for half in ("spec", "status"))
        )
    }
    assert unknown == set()


@pytest.mark.parametrize(
    "page", [page for page in PAGES if page.is_relative_to(ROOT / "docs")], ids=lambda page: page.name
)
def test_the_readme_or_a_list_that_it_links_to_leads_to_every_page(page: Path) -> None:
    linked = {
        (each.parent / target.partition("#")[0]).resolve()
        for each in (ROOT / "README.md", ROOT / "docs" / "decisions" / "README.md")
        for target in re.findall(r"\]\(([^)\s]+)\)", prose(each))
    }
    assert page in linked


@pytest.mark.parametrize("example", sorted((ROOT / "examples").glob("*.yaml")), ids=lambda path: path.name)
def test_every_example_of_a_model_can_be_read(example: Path) -> None:
    documents = list(yaml.safe_load_all(example.read_text()))
    assert documents
    for document in documents:
        if document["kind"] == "DiffusionModel":
            document["metadata"] |= {"namespace": "default", "uid": "1", "generation": 1, "resourceVersion": "1"}
            assert DiffusionModel.model_validate(document).metadata.name
