"""What is compiled, from which versions, and under which key it is cached."""

import shutil
from pathlib import Path

import pytest

from cluster import paths, programs
from cluster.errors import ClusterError, MissingPrerequisiteError

GO_MOD = (paths.SOURCE / "go.mod").read_text()


def test_all_programs_of_a_cluster_are_in_go_mod() -> None:
    names = {package.rpartition("/")[2] for package in programs.tool_packages(GO_MOD)}

    assert {"kube-apiserver", "kube-controller-manager", "kube-scheduler", "kubelet", "kube-proxy", "kubectl"} <= names
    assert {"containerd", "containerd-shim-runc-v2", "ctr"} <= names


def test_staging_modules_are_pinned_to_the_release_of_kubernetes() -> None:
    release = programs.kubernetes_version().removeprefix("v1.")
    replaced = [line.split() for line in GO_MOD.splitlines() if line.strip().startswith("k8s.io/") and "=>" in line]

    assert len(replaced) > 20
    assert {words[-1] for words in replaced} == {f"v0.{release}"}


def test_programs_report_the_version_of_kubernetes() -> None:
    flags = " ".join(programs.build_flags("v1.36.3"))

    assert "gitVersion=v1.36.3" in flags
    assert "gitMajor=1 " in flags
    assert flags.endswith("gitMinor=36")


def test_a_go_mod_without_kubernetes_is_refused() -> None:
    with pytest.raises(ClusterError, match=r"requires no k8s\.io/kubernetes"):
        programs.kubernetes_version("module cluster\n")


@pytest.mark.parametrize("changed", ["go.mod", "go.sum", "main.go", "pause/main.go"])
def test_any_change_of_a_source_is_compiled_anew(changed: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    shutil.copytree(paths.SOURCE, tmp_path / "cluster")
    monkeypatch.setattr(paths, "SOURCE", tmp_path / "cluster")
    before = programs.cache_key()

    with (tmp_path / "cluster" / changed).open("a") as file:
        file.write("\n// changed\n")

    assert programs.cache_key() != before


def test_a_machine_without_go_is_told_what_to_install(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    monkeypatch.setenv("PATH", str(tmp_path))

    with pytest.raises(MissingPrerequisiteError, match=r"no go on PATH: install Go 1\.\d+"):
        programs.ensure()


def test_a_go_that_is_too_old_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    go = tmp_path / "go"
    go.write_text("#!/bin/sh\necho go1.19.8\n")
    go.chmod(0o755)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    monkeypatch.setenv("PATH", f"{tmp_path}:/bin")

    with pytest.raises(MissingPrerequisiteError, match=r"Go is too old \(1\.19\.8\): install Go"):
        programs.ensure()


def test_an_unknown_program_is_answered_with_those_that_there_are(tmp_path: Path) -> None:
    (tmp_path / "etcd").touch()

    with pytest.raises(ClusterError, match="no program called 'etcdd': there are etcd"):
        programs.Programs(tmp_path).path("etcdd")
