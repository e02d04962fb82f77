"""The cache is emptied on request, never under a running cluster."""

import os
import threading
from pathlib import Path

import pytest

from cluster import mounts, paths, processes, pruning
from cluster.errors import ClusterError
from cluster.locks import exclusive


@pytest.fixture
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    monkeypatch.setattr(processes, "all_supervisors", dict)
    folder = paths.cache()
    (folder / "programs").mkdir(parents=True)
    (folder / "programs" / "etcd").write_bytes(os.urandom(1 << 20))
    return folder


def test_everything_goes_and_its_size_is_told(cache: Path) -> None:
    (cache / "hosts").touch()

    freed = pruning.prune()

    assert {entry.suffix for entry in cache.iterdir()} == {".lock"}
    assert freed >= 1 << 20


def test_a_build_that_is_under_way_is_waited_for(cache: Path) -> None:
    pruner = threading.Thread(target=pruning.prune)
    with exclusive(cache / "images.lock", purpose="build images"):
        pruner.start()
        pruner.join(0.3)
        assert (cache / "programs" / "etcd").exists()
    pruner.join(60)
    assert not (cache / "programs").exists()


def test_nothing_is_removed_through_a_mount(cache: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(mounts, "below", lambda folder: [cache, cache / "programs"])

    with pytest.raises(ClusterError, match="programs is a mount"):
        pruning.prune()

    assert (cache / "programs" / "etcd").exists()


def test_a_file_with_two_names_counts_once(cache: Path) -> None:
    before = pruning.occupied_bytes(cache)

    (cache / "again").hardlink_to(cache / "programs" / "etcd")

    assert pruning.occupied_bytes(cache) == before


def test_nothing_is_removed_under_a_running_cluster(cache: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(processes, "all_supervisors", lambda: {123: Path("/home/me/project/.cluster")})

    with pytest.raises(ClusterError, match=r"running from the cache, in /home/me/project: end it"):
        pruning.prune()

    assert (cache / "programs" / "etcd").exists()
