"""Faults of buildah that pass, and those that do not."""

from pathlib import Path

import pytest

from cluster import buildah
from cluster.errors import ClusterError
from cluster.progress import Step


@pytest.fixture
def program(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    """Stands in for the entered buildah: fails with `words` for the first `failures` calls; returns the count of calls."""

    def make(*, words: str, failures: int):
        calls = tmp_path / "calls"
        script = f'echo x >> {calls}; [ $(wc -l < {calls}) -gt {failures} ] || {{ echo "{words}"; exit 1; }}'
        monkeypatch.setattr(buildah, "_entered", lambda *_: ["sh", "-c", script])
        monkeypatch.setattr(buildah.debian, "ensure", lambda _: None)
        monkeypatch.setattr(buildah.time, "sleep", lambda _: None)
        return lambda: len(calls.read_text().splitlines())

    return make


def test_a_copy_that_cannot_be_sealed_now_is_tried_again(program):
    calls = program(words="Close_Fd sealing memfd copy: Device or resource busy", failures=4)

    buildah.run(["buildah", "bud"], Step("build"))

    assert calls() == 5


def test_it_is_not_tried_for_ever(program):
    calls = program(words="Close_Fd sealing memfd copy: Device or resource busy", failures=99)

    with pytest.raises(ClusterError, match="sealing memfd copy"):
        buildah.run(["buildah", "bud"], Step("build"))

    assert calls() == 5


def test_a_build_that_fails_is_not_tried_again(program):
    calls = program(words="no such file", failures=99)

    with pytest.raises(ClusterError, match="status 1; the last lines were\n  no such file"):
        buildah.run(["buildah", "bud"], Step("build"))

    assert calls() == 1
