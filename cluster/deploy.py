"""Install the operator with Helm, into our throw-away cluster or into the one context that the user named.

Nothing is ever applied to a context that was not named: every kubectl and helm call carries `--context` and
`--kubeconfig`, and without KUBE_CONTEXT both point at `.cluster/`.
"""

import json
import os
import shutil
import subprocess
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Self

from cluster.locks import exclusive

RELEASE = "diffusion-operator"
NAMESPACE = "diffusion-system"
CHART = Path(__file__).parent.parent / "charts" / "diffusion-operator"
NODE_PORT = 30080
"""Where the gateway listens on the throw-away node; the host reaches the node's address directly."""


class DeployError(RuntimeError):
    """A command failed; the message has its last words."""


@dataclass(frozen=True)
class Target:
    """The cluster that commands go to."""

    kubeconfig: Path | None  # None: KUBECONFIG is a list of files, which only the variable can give to kubectl and helm
    context: str | None
    kubectl_path: Path
    helm_path: Path

    @classmethod
    def named_by_user(cls) -> Self | None:
        """The context in KUBE_CONTEXT, or None when the user named none.

        Raises:
            DeployError: KUBE_CONTEXT is set but kubectl or helm is missing.
        """
        context = os.environ.get("KUBE_CONTEXT")
        if not context:
            return None
        programs = {name: shutil.which(name) for name in ("kubectl", "helm")}
        if missing := [name for name, found in programs.items() if not found]:
            raise DeployError(f"KUBE_CONTEXT={context} needs {' and '.join(missing)} on PATH: install and try again")
        files = [Path(file) for file in os.environ.get("KUBECONFIG", "").split(os.pathsep) if file]
        kubeconfig = None if len(files) > 1 else next(iter(files), Path.home() / ".kube" / "config")
        return cls(kubeconfig, context, Path(programs["kubectl"] or ""), Path(programs["helm"] or ""))

    def kubectl(self, *arguments: str, stdin: str | None = None, timeout: float = 60) -> str:
        """Run kubectl and return what it printed.

        Raises:
            DeployError: it failed or took longer than `timeout` seconds.
        """
        return run(self.kubectl_command(*arguments), stdin=stdin, timeout=timeout)

    def kubectl_command(self, *arguments: str) -> list[str]:
        """Command line of a kubectl that talks to this cluster."""
        return [str(self.kubectl_path), *self._flags("--context"), *arguments]

    def helm(self, *arguments: str, timeout: float = 300) -> str:
        """Run helm and return what it printed; errors as in `kubectl`."""
        return run([str(self.helm_path), *self._flags("--kube-context"), *arguments], timeout=timeout)

    def get(self, *arguments: str) -> dict[str, Any]:
        """`kubectl get … -o json`, parsed."""
        parsed: dict[str, Any] = json.loads(self.kubectl("get", *arguments, "-o", "json"))
        return parsed

    def require_reachable(self) -> None:
        """Raise DeployError, with kubectl's words, unless the cluster answers."""
        self.kubectl("get", "--raw", "/version", timeout=30)

    def _flags(self, context_flag: str) -> list[str]:
        flags = ["--kubeconfig", str(self.kubeconfig)] if self.kubeconfig else []
        return [*flags, *([context_flag, self.context] if self.context else [])]


def run(command: Sequence[str], *, stdin: str | None = None, timeout: float) -> str:
    """Run a program to its end and return its standard output.

    Raises:
        DeployError: exit status other than 0, or `timeout` seconds passed.
    """
    name = Path(command[0]).name
    try:
        done = subprocess.run(command, input=stdin, capture_output=True, text=True, timeout=timeout, check=False)
    except subprocess.TimeoutExpired as expired:
        raise DeployError(f"{name} {' '.join(command[1:])} did not end within {timeout:.0f} s") from expired
    if done.returncode:
        raise DeployError(f"{name} {' '.join(command[1:])} failed: {(done.stderr or done.stdout).strip()[-2000:]}")
    return done.stdout


@dataclass(frozen=True)
class Images:
    """References of the three programs' images as the cluster's nodes pull them: `registry/repository:tag`."""

    operator: str
    gateway: str
    worker: str


def install(target: Target, images: Images, *, values: Sequence[str] = ()) -> None:
    """Install or upgrade the chart and wait until operator and gateway are ready.

    Args:
        values: more `--set` arguments, such as `gateway.service.type=NodePort`.

    Raises:
        DeployError: Helm failed or the pods were not ready within five minutes.
    """
    settings = [
        setting for part in ("operator", "gateway", "worker") for setting in _image(part, getattr(images, part))
    ]
    # As strings: a tag of digits alone would become a number.
    flags = [flag for setting in settings for flag in ("--set-string", setting)]
    flags += [flag for setting in values for flag in ("--set", setting)]
    namespace = ["--namespace", NAMESPACE, "--create-namespace"]
    command = ["upgrade", RELEASE, str(CHART), "--install", *namespace, "--wait", "--timeout", "5m", *flags]
    with exclusive(CHART, purpose="install the chart"):
        if target.context is None:
            forget_interrupted_installation(target)
        target.helm(*command, timeout=360)


def forget_interrupted_installation(target: Target) -> None:
    """Let Helm install again after it was killed (Ctrl-C): it would say that "another operation is in progress".

    On the throw-away cluster nobody but this checkout uses Helm, so an operation that is pending has no process.
    Elsewhere it may be somebody else's.
    """
    pending = "pending-install,pending-upgrade,pending-rollback"
    selector = f"owner=helm,name={RELEASE},status in ({pending})"
    target.kubectl("--namespace", NAMESPACE, "delete", "secrets", "--selector", selector)


def _image(part: str, reference: str) -> tuple[str, str, str]:
    registry, _, rest = reference.rpartition("/")
    repository, _, tag = rest.rpartition(":")
    image = f"{part}.image"
    return f"{image}.registry={registry}", f"{image}.repository={repository}", f"{image}.tag={tag}"
