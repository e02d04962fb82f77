"""What is missing is said in one line, with the remedy."""

import errno
from pathlib import Path

import pytest

from cluster import cgroups, debian, lifecycle, prerequisites
from cluster.__main__ import main
from cluster.cgroups import Hierarchy
from cluster.errors import MissingPrerequisiteError

HYBRID = """\
tmpfs /sys/fs/cgroup tmpfs rw 0 0
cgroup /sys/fs/cgroup/cpu,cpuacct cgroup rw,relatime,cpu,cpuacct 0 0
cgroup /sys/fs/cgroup/memory cgroup rw,relatime,memory 0 0
cgroup2 /sys/fs/cgroup/unified cgroup2 rw 0 0
/dev/vda / ext4 rw 0 0
"""


def one_line(error: pytest.ExceptionInfo[MissingPrerequisiteError]) -> str:
    message = str(error.value)
    assert "\n" not in message
    return message


def test_a_user_who_is_not_root_learns_of_both_ways_out() -> None:
    with pytest.raises(MissingPrerequisiteError) as error:
        prerequisites.require_root(1000)

    assert one_line(error).startswith("not root")
    assert "KUBE_CONTEXT" in one_line(error)


def test_a_user_who_only_builds_images_is_not_sent_to_a_cluster_that_is_there() -> None:
    with pytest.raises(MissingPrerequisiteError) as error:
        prerequisites.require_root_to_build(1000)

    assert one_line(error).startswith("not root")
    assert "KUBE_CONTEXT" not in one_line(error)


def test_root_is_enough() -> None:
    prerequisites.require_root(0)
    prerequisites.require_root_to_build(0)


def test_a_disk_that_is_full_meanwhile_is_said_in_one_line(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def fill(*_: object) -> None:
        raise OSError(errno.ENOSPC, "No space left on device", "/home/me/.cluster/pki/ca.key")

    monkeypatch.setattr(lifecycle, "up", fill)
    monkeypatch.setattr("sys.argv", ["cluster", "up"])

    assert main() == 1
    (line,) = capsys.readouterr().err.splitlines()
    assert "No space left on device: '/home/me/.cluster/pki/ca.key'" in line
    assert "prune" in line


def test_a_full_disk_is_named_with_what_is_free_and_needed(tmp_path: Path) -> None:
    with pytest.raises(MissingPrerequisiteError) as error:
        prerequisites.require_space(tmp_path, needed_gib=10**9)

    assert str(tmp_path) in one_line(error)
    assert "1000000000 GiB needed" in one_line(error)
    assert "prune" in one_line(error)


def test_a_kernel_without_overlayfs_is_told_how_to_get_it() -> None:
    with pytest.raises(MissingPrerequisiteError) as error:
        prerequisites.require_overlay("nodev\tsysfs\n\text4\n")

    assert "modprobe overlay" in one_line(error)


def test_a_kernel_with_overlayfs_will_do() -> None:
    prerequisites.require_overlay("nodev\tsysfs\nnodev\toverlay\n")


def test_another_distribution_is_told_what_to_use(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))

    with pytest.raises(MissingPrerequisiteError) as error:
        debian.ensure(["runc"])

    assert "use Debian 12" in one_line(error)


def test_missing_cgroup_controllers_are_named(monkeypatch: pytest.MonkeyPatch) -> None:
    there = [Hierarchy(Path("/sys/fs/cgroup"), 2, frozenset({"cpu", "memory", "io"}))]
    monkeypatch.setattr(cgroups, "hierarchies", lambda: there)

    with pytest.raises(MissingPrerequisiteError) as error:
        cgroups.require()

    assert "no cgroup controller for cpuset, pids" in one_line(error)


def test_controllers_are_found_in_both_versions_of_cgroups() -> None:
    found = cgroups.hierarchies(HYBRID)

    assert [(str(h.folder), h.version) for h in found] == [
        ("/sys/fs/cgroup/cpu,cpuacct", 1),
        ("/sys/fs/cgroup/memory", 1),
        ("/sys/fs/cgroup/unified", 2),
    ]
    assert {"cpu", "cpuacct"} <= found[0].controllers
