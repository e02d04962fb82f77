"""What the tests of the chart share: running helm, rendering, and looking things up in what came out."""

import functools
import json
import subprocess
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml

from cluster import tools

ROOT = Path(__file__).resolve().parent.parent.parent
CHART = ROOT / "charts" / "diffusion-operator"
RELEASE = "diffusion-operator"
NAMESPACE = "diffusion-system"
REGISTRY = "registry.example.com/diffusion"
EVERYTHING = Path(__file__).with_name("everything.yaml")

Manifest = dict[str, Any]


class HelmError(Exception):
    """helm ended with an error; the message is what it printed on stderr."""


def helm(*arguments: str, kubeconfig: Path | None = None) -> str:
    """Run helm and return its standard output."""
    where = ["--kubeconfig", str(kubeconfig)] if kubeconfig else []
    done = subprocess.run([str(tools.path("helm")), *arguments, *where], capture_output=True, text=True, check=False)
    if done.returncode != 0:
        raise HelmError(done.stderr)
    return done.stdout


def settings(values: Mapping[str, Any]) -> list[str]:
    """One `--set-json` for each dotted path of `values`."""
    return [f"--set-json={path}={json.dumps(value)}" for path, value in values.items()]


@dataclass(frozen=True)
class Rendered:
    """The objects of one rendering."""

    objects: tuple[Manifest, ...]

    def of(self, kind: str) -> list[Manifest]:
        """All objects of a kind."""
        return [found for found in self.objects if found["kind"] == kind]

    def one(self, kind: str, name: str) -> Manifest:
        """The object of this kind and name."""
        (found,) = [item for item in self.of(kind) if item["metadata"]["name"] == name]
        return found

    def pod_specs(self) -> Iterator[tuple[str, Manifest]]:
        """Name and pod spec of everything that runs pods."""
        for item in self.objects:
            if item["kind"] in {"Deployment", "Job"}:
                yield item["metadata"]["name"], item["spec"]["template"]["spec"]


def render(values: Mapping[str, Any] | None = None, *, files: tuple[Path, ...] = ()) -> Rendered:
    """`helm template` with the registry set, as values.yaml names none."""
    given = {"image.registry": REGISTRY} if not files else {}
    return _template(*(f"--values={file}" for file in files), *settings({**given, **(values or {})}))


@functools.cache
def _template(*values: str) -> Rendered:
    text = helm("template", RELEASE, str(CHART), f"--namespace={NAMESPACE}", *values)
    return Rendered(tuple(item for item in yaml.safe_load_all(text) if item))
