"""What `make` does before there is a virtual environment, and around the tests that need a cluster. Scripts play the programs."""

import os
import shutil
import subprocess
from pathlib import Path

import pytest

from cluster import paths

RECORD = """#!/bin/bash
echo "$(basename $0) $*" >> {log}
case "$*" in
  "-c "*) exit {unfit} ;;
  "-m venv "*) [ -z "{venv}" ] && exit 1; mkdir -p .venv/bin; cp "$0" .venv/bin/pip; cp "$0" .venv/bin/uv; cp "$0" .venv/bin/python; cp "$0" .venv/bin/pytest ;;
  *"cluster status") [ -e cluster-runs ] && echo "running, supervised by process 1" || {{ echo "not running"; exit 3; }} ;;
  *"tests/cluster"*) [ -e tests-fail ] && exit 1; [[ -e tests-fail-once && "$*" != *--last-failed* ]] && exit 1; exit 0 ;;
esac
"""


class Checkout:
    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.log = folder / "calls"
        (folder / "bin").mkdir()
        (folder / "requirements").mkdir()
        for file in ("requirements/dev.txt", "pyproject.toml", "calls"):
            (folder / file).touch()
        shutil.copy(paths.REPOSITORY / "Makefile", folder)
        for name in ("bash", "basename", "mkdir", "cp", "touch", "make"):
            (folder / "bin" / name).symlink_to(str(shutil.which(name)))
        self.program("id", "#!/bin/bash\necho 1000\n")

    def program(self, name: str, text: str) -> None:
        (self.folder / "bin" / name).write_text(text)
        (self.folder / "bin" / name).chmod(0o755)

    def python(self, name: str, *, fit: bool = True, venv: bool = True) -> None:
        self.program(name, RECORD.format(log=self.log, unfit=0 if fit else 1, venv="yes" if venv else ""))

    def make(self, target: str) -> "subprocess.CompletedProcess[str]":
        environment = {"PATH": str(self.folder / "bin"), "HOME": os.environ.get("HOME", "/")}
        return subprocess.run(
            ["make", target], cwd=self.folder, env=environment, capture_output=True, text=True, check=False
        )

    def calls(self) -> list[str]:
        return [line for line in self.log.read_text().splitlines() if " -c " not in line]


@pytest.fixture
def checkout(tmp_path: Path) -> Checkout:
    return Checkout(tmp_path)


def test_a_newer_python3_is_passed_over_for_a_python3_11(checkout):
    checkout.python("python3", fit=False)
    checkout.python("python3.11")

    assert checkout.make("setup").returncode == 0

    assert checkout.calls()[0] == "python3.11 -m venv .venv"
    assert (checkout.folder / ".venv" / "installed").exists()


def test_without_a_python_that_fits_one_line_says_so(checkout):
    checkout.python("python3", fit=False)

    done = checkout.make("setup")

    assert done.returncode != 0
    assert "no Python 3.11 or 3.12" in done.stdout
    assert checkout.calls() == []


def test_a_user_who_is_not_root_learns_which_package_is_missing(checkout):
    checkout.python("python3", venv=False)

    done = checkout.make("setup")

    assert done.returncode != 0
    assert "apt-get install python3-venv" in done.stdout


@pytest.mark.parametrize("tests_fail", [False, True])
def test_the_cluster_that_the_tests_started_is_ended_however_they_end(checkout, tests_fail):
    checkout.python("python3")
    if tests_fail:
        (checkout.folder / "tests-fail").touch()

    done = checkout.make("test-e2e")

    assert (done.returncode != 0) is tests_fail
    assert checkout.calls()[-1] == "python -m cluster down"


def test_a_cluster_that_ran_before_the_tests_runs_on(checkout):
    checkout.python("python3")
    (checkout.folder / "cluster-runs").touch()

    assert checkout.make("test-e2e").returncode == 0

    assert "python -m cluster down" not in checkout.calls()


def test_what_failed_once_is_run_once_more_alone(checkout):
    checkout.python("python3")
    (checkout.folder / "tests-fail-once").touch()

    done = checkout.make("test-e2e")

    assert done.returncode == 0
    assert "once more, what failed" in done.stdout
    asked = [call for call in checkout.calls() if "tests/cluster" in call]
    assert ["--last-failed" in call for call in asked] == [False, True]
