"""The chart carries the CRDs of crds/ and lets them survive what a release does not."""

from pathlib import Path

import yaml

from charts import sync_crds
from tests.chart.chart import ROOT, Manifest, render

NAME = "diffusionmodels.serving.diffusion-operator.dev"


def crd(**values: bool) -> Manifest:
    """The CRD as rendered with `crds.<name>` set."""
    return render({f"crds.{name}": value for name, value in values.items()}).one("CustomResourceDefinition", NAME)


def test_the_chart_has_an_exact_copy():
    assert list((ROOT / "crds").glob("*.yaml"))
    assert sync_crds.differences() == []


def test_what_is_rendered_is_the_crd_of_the_repository():
    (path,) = (ROOT / "crds").glob("*.yaml")
    assert crd()["spec"] == yaml.safe_load(path.read_text())["spec"]


def test_the_crd_is_kept_when_the_chart_goes_unless_asked_otherwise():
    assert crd()["metadata"]["annotations"]["helm.sh/resource-policy"] == "keep"
    assert "helm.sh/resource-policy" not in crd(keep=False)["metadata"].get("annotations", {})


def test_the_crd_can_be_left_to_somebody_else():
    assert render({"crds.install": False}).of("CustomResourceDefinition") == []


def test_the_check_names_what_is_missing_foreign_or_different(tmp_path: Path):
    source, copy = tmp_path / "crds", tmp_path / "copy"
    for folder in (source, copy):
        folder.mkdir()
    (source / "new.yaml").write_text("a")
    (source / "changed.yaml").write_text("a")
    (copy / "changed.yaml").write_text("b")
    (copy / "old.yaml").write_text("a")

    assert sync_crds.differences(source, copy) == [
        f"{copy}/new.yaml is missing",
        f"{copy}/old.yaml is not in {source}",
        f"{copy}/changed.yaml differs from {source}/changed.yaml",
    ]

    sync_crds.sync(source, copy)
    assert sync_crds.differences(source, copy) == []
