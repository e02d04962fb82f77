"""Packages are installed once, by one process at a time, and without a trace on the machine's services."""

import os
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from cluster import debian
from cluster.errors import MissingPrerequisiteError

DPKG_QUERY = "#!/bin/sh\ncat {installed} 2>/dev/null\n"
APT_GET = """#!/bin/sh
echo "$*" >> {calls}
[ -x {policy} ] && echo "services are held back" >> {calls}
echo "runc installed" > {installed}
"""


@pytest.fixture
def machine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A folder with an apt-get and a dpkg-query that play a Debian without packages."""
    files = {name: tmp_path / name for name in ("calls", "installed", "policy")}
    for name, text in (("apt-get", APT_GET), ("dpkg-query", DPKG_QUERY)):
        program = tmp_path / name
        program.write_text(text.format(**files))
        program.chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}:/usr/bin:/bin")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.setattr(debian, "_POLICY", files["policy"])
    monkeypatch.setattr(os, "geteuid", lambda: 0)
    yield tmp_path


def test_a_missing_package_is_installed_while_services_are_held_back(machine: Path) -> None:
    debian.ensure(["runc"])

    install, policy = (machine / "calls").read_text().splitlines()
    assert install.startswith("install --yes")
    assert "DPkg::Lock::Timeout" in install
    assert policy == "services are held back"
    assert not (machine / "policy").exists()


def test_what_a_killed_installation_left_behind_is_removed(machine: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def killed(*_: object, **__: object) -> None:
        raise SystemExit

    with monkeypatch.context() as broken:
        broken.setattr(subprocess, "run", killed)
        broken.setattr(Path, "unlink", lambda *_, **__: None)
        broken.setattr(debian, "missing", lambda packages: packages)
        with pytest.raises(SystemExit):
            debian.ensure(["runc"])
    assert (machine / "policy").exists()
    (machine / "installed").write_text("runc installed")

    debian.ensure(["runc"])

    assert not (machine / "policy").exists()
    assert not (machine / "calls").exists()


def test_a_policy_of_the_machines_owner_stays(machine: Path) -> None:
    (machine / "policy").write_text("#!/bin/sh\nexit 0\n")

    debian.ensure(["runc"])

    assert (machine / "policy").read_text() == "#!/bin/sh\nexit 0\n"


def test_a_user_who_is_not_root_is_told_what_to_install(machine: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "geteuid", lambda: 1000)

    with pytest.raises(MissingPrerequisiteError, match="run `apt-get install runc`"):
        debian.ensure(["runc"])
