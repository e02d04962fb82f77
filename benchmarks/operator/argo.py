"""Argo Rollouts, built from its Go module into .bench/argo: minutes of a machine, once. No analysis, no pods, no traffic router."""

import json
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from benchmarks import paths
from benchmarks.errors import BenchmarkError
from benchmarks.operator.api import Json
from benchmarks.operator.processes import OURS_ALONE, Operator, answers, free_port
from benchmarks.peers.processes import Pinned
from benchmarks.progress import say

VERSION = "v1.9.2"  # the newest that Go 1.24 builds
_MODULE = "github.com/argoproj/argo-rollouts"
_COMMAND = f"{_MODULE}/cmd/rollouts-controller"
_FOLDER = paths.BENCH / "argo"
_PROGRAM = _FOLDER / f"rollouts-controller-{VERSION}"
_CRDS = _FOLDER / "crds"
_START_SECONDS = 120.0
_STEPS = 20


def build() -> None:
    """Make the program, unless it is there.

    Raises:
        BenchmarkError: there is no Go, or it cannot build it.
    """
    if _PROGRAM.exists():
        return
    say(f"building {_MODULE} {VERSION}: up to a quarter of an hour, once")
    _FOLDER.mkdir(parents=True, exist_ok=True)
    (_FOLDER / "go.mod").write_text("module contestant\n\ngo 1.24.9\n")
    source = Path(json.loads(_go("mod", "download", "-json", f"{_MODULE}@{VERSION}"))["Dir"])
    # It needs the very versions of Kubernetes' modules that it replaces its own by, and a module's replacements do not reach its users.
    _, _, replaced = (source / "go.mod").read_text().partition("\nreplace")
    (_FOLDER / "go.mod").write_text(
        f"module contestant\n\ngo 1.24.9\n\nrequire {_MODULE} {VERSION}\n\nreplace{replaced}"
    )
    (_FOLDER / "tools.go").write_text(f'//go:build tools\n\npackage contestant\n\nimport _ "{_COMMAND}"\n')
    _go("mod", "tidy", "-e")
    _go("build", "-o", str(_PROGRAM), _COMMAND)
    _CRDS.mkdir(exist_ok=True)
    for file in (source / "manifests" / "crds").glob("*-crd.yaml"):
        (_CRDS / file.name).write_bytes(file.read_bytes())


def crds() -> tuple[Path, ...]:
    """Its CRDs, once it was built."""
    return tuple(sorted(_CRDS.glob("*.yaml")))


def rollout(number: int) -> Json:
    """A Rollout on the same ladder as a DiffusionModel: 20 steps of 24 hours."""
    name = f"model-{number}"
    weights = [5 * step for step in range(1, _STEPS)] + [99]  # at 100 it would be promoted at once
    steps = [one for weight in weights for one in ({"setWeight": weight}, {"pause": {"duration": "24h"}})]
    return {
        "apiVersion": "argoproj.io/v1alpha1",
        "kind": "Rollout",
        "metadata": {"name": name, "labels": {"app": name}},
        "spec": {
            "replicas": 0,
            "revisionHistoryLimit": 3,
            "selector": {"matchLabels": {"app": name}},
            "template": {"metadata": {"labels": {"app": name}}} | revision("a")["spec"]["template"],
            "strategy": {"canary": {"steps": steps}},
        },
    }


def revision(tag: str) -> Json:
    """A change to another revision."""
    return {"spec": {"template": {"spec": {"containers": [{"name": "app", "image": f"registry.test/app:{tag}"}]}}}}


@contextmanager
def controller(admin: Path, operator: Path) -> Iterator[Operator]:
    """The controller with a kubeconfig of its own. It needs nothing around it: there are no pods to be ready."""
    namespace = ["kubectl", f"--kubeconfig={admin}", "create", "namespace", "argo-rollouts"]
    subprocess.run(namespace, check=True, capture_output=True)
    health, metrics = free_port(), free_port()
    process = Pinned.start(
        "argo-rollouts",
        [
            *(str(_PROGRAM), f"--kubeconfig={operator}", "--leader-elect=false", "--loglevel=error"),
            *(f"--healthzPort={health}", f"--metricsPort={metrics}"),
        ],
        placement=OURS_ALONE,
        environment={"LD_PRELOAD": ""},
        speaks_lines=False,
    )
    try:
        process.wait_until(lambda: answers(health, "/healthz"), what="health", seconds=_START_SECONDS)
        yield Operator(process.pid, metrics=metrics)
    finally:
        process.stop()


def _go(*arguments: str) -> str:
    try:
        done = subprocess.run(["go", *arguments], cwd=_FOLDER, capture_output=True, text=True, check=False)
    except FileNotFoundError:
        raise BenchmarkError("there is no Go to build Argo Rollouts with: install it, or leave --argo away") from None
    if done.returncode:
        raise BenchmarkError(f"go {' '.join(arguments)}: {done.stderr[-1000:]}")
    return done.stdout
