"""Commands that need a cluster, and find no way to one."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

COMMANDS = {
    "explain": ("diffusion_operator", "explain", "storyteller"),
    "run": ("diffusion_operator", "run", "--worker-image=worker:1", "--namespace=system"),
    "gateway": ("diffusion_gateway", "run", "--port=0", "--admin-port=0"),
}


def says(tmp_path: Path, command: str, *, kubeconfig: Path | None) -> str:
    """The one line that a command prints before it ends with exit code 2, for a user without a kubeconfig at home."""
    unset = {"KUBECONFIG", "KUBERNETES_SERVICE_HOST", "KUBERNETES_SERVICE_PORT"}
    environment = {name: value for name, value in os.environ.items() if name not in unset} | {"HOME": str(tmp_path)}
    named = [f"--kubeconfig={kubeconfig}"] if kubeconfig else []
    done = subprocess.run(
        [sys.executable, "-m", *COMMANDS[command], *named], env=environment, capture_output=True, text=True, check=False
    )
    assert (done.returncode, done.stdout) == (2, "")
    (line,) = done.stderr.splitlines()
    return line


@pytest.mark.parametrize("command", COMMANDS)
def test_without_a_way_to_a_cluster_one_sentence_says_what_to_do(tmp_path: Path, command: str) -> None:
    line = says(tmp_path, command, kubeconfig=None)
    assert "no service account" in line
    assert "name a kubeconfig file with --kubeconfig" in line


@pytest.mark.parametrize("command", COMMANDS)
def test_a_kubeconfig_that_is_not_there_is_named(tmp_path: Path, command: str) -> None:
    missing = tmp_path / "missing"
    assert f"there is no kubeconfig file {missing};" in says(tmp_path, command, kubeconfig=missing)


@pytest.mark.parametrize("text", ["{a", "a sentence", "kind: Config"])
@pytest.mark.parametrize("command", COMMANDS)
def test_a_kubeconfig_that_is_something_else_is_named(tmp_path: Path, command: str, text: str) -> None:
    wrong = tmp_path / "wrong"
    wrong.write_text(text)
    assert f"the kubeconfig file {wrong} cannot be used" in says(tmp_path, command, kubeconfig=wrong)
