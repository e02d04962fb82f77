"""The cluster's programs, compiled from the Go modules that `go.mod` pins.

They are kept in the user's cache under a hash of everything that goes into them, so each version is
compiled once per machine, whatever the number of checkouts.
"""

import hashlib
import os
import re
import shutil
import subprocess
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from cluster import paths
from cluster.errors import ClusterError, MissingPrerequisiteError
from cluster.locks import exclusive
from cluster.progress import Step

# `go build` names a program after its folder; these two deserve a better name.
_RENAMED = {"server": "etcd", "cluster": "coredns"}
_SOURCES = ("go.mod", "go.sum", "main.go", "pause/main.go")


@dataclass(frozen=True)
class Programs:
    """A folder of compiled programs."""

    folder: Path

    def path(self, name: str) -> Path:
        """The program called `name`; an error when the build has none of that name."""
        program = self.folder / name
        if not program.is_file():
            there = ", ".join(sorted(file.name for file in self.folder.iterdir()))
            raise ClusterError(f"no program called {name!r}: there are {there}")
        return program


def kubernetes_version(go_mod: str | None = None) -> str:
    """The Kubernetes version in `go.mod`, such as `v1.36.3`."""
    text = (paths.SOURCE / "go.mod").read_text() if go_mod is None else go_mod
    found = re.search(r"^\s*k8s\.io/kubernetes (v\d+\.\d+\.\d+)\b", text, re.MULTILINE)
    if found is None:
        raise ClusterError("cluster/go.mod requires no k8s.io/kubernetes: add the version that the cluster shall run")
    return found[1]


def tool_packages(go_mod: str) -> tuple[str, ...]:
    """The packages in the `tool` block of `go_mod`, each a program."""
    block = re.search(r"^tool \((.*?)^\)", go_mod, re.MULTILINE | re.DOTALL)
    return tuple(block[1].split()) if block else ()


def build_flags(version: str) -> tuple[str, ...]:
    """Flags of `go build`. Without the linker's -X every Kubernetes program reports version v0.0.0."""
    major, minor, _ = version.removeprefix("v").split(".")
    stamp = "k8s.io/component-base/version"
    linker = f"-s -w -X {stamp}.gitVersion={version} -X {stamp}.gitMajor={major} -X {stamp}.gitMinor={minor}"
    return ("-trimpath", "-ldflags", linker)


def cache_key() -> str:
    """Hash of what goes into the programs: sources, pinned modules and flags."""
    digest = hashlib.sha256("\0".join(build_flags(kubernetes_version())).encode())
    for name in _SOURCES:
        digest.update((paths.SOURCE / name).read_bytes())
    return digest.hexdigest()[:16]


def ensure() -> Programs:
    """The programs from the cache, compiled first where they are not there yet (minutes)."""
    folder = paths.cache() / "programs" / cache_key()
    if not folder.is_dir():
        with exclusive(paths.cache() / "programs.lock", purpose="compile the same programs"):
            if not folder.is_dir():
                _compile(folder)
    return Programs(folder)


def _compile(folder: Path) -> None:
    require_go()
    unfinished = folder.with_name(folder.name + ".unfinished")
    shutil.rmtree(unfinished, ignore_errors=True)
    unfinished.mkdir(parents=True)
    version = kubernetes_version()
    packages = (*tool_packages((paths.SOURCE / "go.mod").read_text()), ".", "./pause")
    command = ["go", "build", "-v", *build_flags(version), "-o", f"{unfinished}/", *packages]
    with Step(f"compile Kubernetes {version} and its companions (once per machine; minutes)") as step:
        run_go(command, step)
    for built, better in _RENAMED.items():
        (unfinished / built).rename(unfinished / better)
    # The folder appears under its final name only when it is complete.
    unfinished.rename(folder)


def run_go(command: list[str], step: Step, *, environment: Mapping[str, str] | None = None) -> None:
    """Run a `go build -v` or `go install -v` for static programs; show each package as the step's detail."""
    environment = {**os.environ, "CGO_ENABLED": "0", **(environment or {})}
    with subprocess.Popen(command, cwd=paths.SOURCE, env=environment, stderr=subprocess.PIPE, text=True) as process:
        assert process.stderr is not None  # noqa: S101 - for the type checker: it is a pipe
        compiled, last_lines = 0, [""]
        for line in process.stderr:
            compiled += 1
            step.detail = f"{compiled} packages, last {line.strip()[:60]}"
            last_lines = [*last_lines[-4:], line.strip()]
    step.detail = f"{compiled} packages"
    if process.returncode != 0:
        raise ClusterError(f"go failed with status {process.returncode}: {' | '.join(last_lines).strip(' |')}")


def require_go() -> None:
    """Raise unless a Go is installed that is new enough for `go.mod`."""
    found = re.search(r"^go ([\d.]+)$", (paths.SOURCE / "go.mod").read_text(), re.MULTILINE)
    needed = found[1] if found else "1.26"
    if shutil.which("go") is None:
        raise MissingPrerequisiteError(f"there is no go on PATH: install Go {needed} or newer (https://go.dev/dl)")
    asked = subprocess.run(["go", "env", "GOVERSION"], cwd=paths.SOURCE, capture_output=True, text=True, check=False)
    version = asked.stdout.strip().removeprefix("go")
    if asked.returncode != 0 or _numbers(version) < _numbers(needed):
        reported = version or asked.stderr.strip().replace("\n", " ")
        raise MissingPrerequisiteError(f"Go is too old ({reported}): install Go {needed} or newer (https://go.dev/dl)")


def _numbers(version: str) -> tuple[int, ...]:
    return tuple(int(part) for part in re.findall(r"\d+", version)[:2])
