"""A second checkout beside this one, with a real cluster of its own."""

import json
import shutil
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from cluster import cgroups, paths, processes
from cluster.addresses import Identity
from cluster.paths import StateFolder


class Checkout:
    """A copy of `cluster/` in a folder of its own, driven through its command line as people do."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.state = StateFolder(folder / ".cluster")
        self.identity = Identity.of(folder)
        shutil.copytree(paths.SOURCE, folder / "cluster", ignore=shutil.ignore_patterns("__pycache__"))

    def start(self, *arguments: str) -> subprocess.Popen[str]:
        return subprocess.Popen(
            [sys.executable, "-m", "cluster", *arguments],
            cwd=self.folder,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        )

    def run(self, *arguments: str) -> str:
        """Run a command to its end and return what it printed."""
        with self.start(*arguments) as process:
            output, _ = process.communicate(timeout=300)
        assert process.returncode == 0, output
        return output

    def kubectl(self, *arguments: str) -> str:
        kubectl = self.run("tool", "kubectl").strip()
        command = [kubectl, f"--kubeconfig={self.state.kubeconfig}", *arguments]
        return subprocess.run(command, capture_output=True, text=True, check=True, timeout=60).stdout

    def node(self) -> dict[str, Any]:
        found: dict[str, Any] = json.loads(self.kubectl("get", "node", "node", "-o", "json"))
        return found

    def supervisor(self) -> int:
        (pid,) = processes.supervisors(self.state)
        return pid

    def traces(self) -> "Traces":
        return Traces(self)


class Traces:
    """What a running cluster is made of, noted while it runs so that it can be looked for afterwards."""

    def __init__(self, checkout: Checkout) -> None:
        self._checkout = checkout
        pid = checkout.supervisor()
        self._namespaces = {kind: _namespace(pid, kind) for kind in ("pid", "mnt", "net")}
        self.processes = len(self._members("pid"))

    def left(self) -> list[str]:
        """What is still there of processes, namespaces, mounts and interfaces."""
        found = [f"process {pid} in its {kind} namespace" for kind in self._namespaces for pid in self._members(kind)]
        mounts = Path("/proc/self/mountinfo").read_text().splitlines()
        found += [line for line in mounts if str(self._checkout.folder) in line or self._namespaces["net"] in line]
        if Path("/sys/class/net", self._checkout.identity.interface).exists():
            found.append(f"interface {self._checkout.identity.interface}")
        return found

    def left_after_down(self) -> list[str]:
        """Also cgroups and files."""
        folders = [self._checkout.state.root] if self._checkout.state.root.exists() else []
        return self.left() + [str(path) for path in [*cgroups.existing(self._checkout.identity.name), *folders]]

    def _members(self, kind: str) -> list[int]:
        pids = [int(folder.name) for folder in Path("/proc").iterdir() if folder.name.isdigit()]
        return [pid for pid in pids if _namespace(pid, kind) == self._namespaces[kind]]


def _namespace(pid: int, kind: str) -> str:
    """Which namespace the process is in; empty when it has ended, whether or not its parent has looked yet."""
    try:
        state = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
        return "" if state == "Z" else str(Path(f"/proc/{pid}/ns/{kind}").readlink())
    except OSError:
        return ""


def _eventually(holds: Callable[[], bool], what: str) -> None:
    deadline = time.monotonic() + 60
    while not holds():
        assert time.monotonic() < deadline, what
        time.sleep(0.2)


@pytest.fixture(scope="session")
def eventually() -> Callable[[Callable[[], bool], str], None]:
    return _eventually


@pytest.fixture(scope="module")
def checkout(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Checkout]:
    made = Checkout(tmp_path_factory.mktemp("checkout"))
    yield made
    made.run("down")
