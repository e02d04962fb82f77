"""Pods that share a cache download a checkpoint once. The hub is a small one, on the loopback interface."""

import http.server
import os
import threading
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from tests.triton.test_sources import FILES, Hub, download


class SlowHub(Hub):
    """Takes its time with weights, so that two downloads of them would overlap."""

    def do_GET(self) -> None:  # noqa: N802 - the name that http.server looks for
        if self.path.endswith("model.safetensors"):
            self.weights.append(self.headers.get("Authorization", ""))
            time.sleep(1)
        super().do_GET()

    weights: list[str]


@pytest.fixture
def hub() -> Iterator[tuple[str, list[str]]]:
    """Its address, and the tokens with which weights were asked for."""
    weights: list[str] = []
    handler = type("RecordingHub", (SlowHub,), {"asked": [], "weights": weights})
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), handler) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield f"http://127.0.0.1:{server.server_port}", weights
        server.shutdown()


def test_pods_that_start_together_download_once(hub: tuple[str, list[str]], tmp_path: Path) -> None:
    url, weights = hub
    with ThreadPoolExecutor(3) as pods:
        done = list(pods.map(lambda _: download(url, tmp_path, "hf://org/model"), range(3)))
    assert [pod.returncode for pod in done] == [0, 0, 0], [pod.stderr for pod in done]
    assert len({pod.stdout for pod in done}) == 1
    assert len(weights) == 1


def test_a_pod_that_comes_later_finds_everything_there(hub: tuple[str, list[str]], tmp_path: Path) -> None:
    url, weights = hub
    first, second = (download(url, tmp_path, "hf://org/model") for _ in range(2))
    assert first.stdout == second.stdout
    assert len(weights) == 1


def test_another_pod_s_cache_is_another_download(hub: tuple[str, list[str]], tmp_path: Path) -> None:
    url, weights = hub
    for pod in ("a", "b"):
        assert download(url, tmp_path / pod, "hf://org/model").returncode == 0
    assert len(weights) == 2


MEGABYTE = 2**20
WEIGHTS = bytes(range(256)) * (24 * MEGABYTE // 256)


class LargeHub(Hub):
    """Has weights of 24 MB. Whoever comes first gets 15 of them, and then the connection breaks."""

    ranges: list[str | None]

    def _send(self, status: int, content: bytes, body: bool, headers: dict[str, str]) -> None:
        if not self.path.endswith("model.safetensors") or not body:
            return super()._send(status, content, body, headers)
        wanted = self.headers.get("Range")
        self.ranges.append(wanted)
        start = int(wanted.removeprefix("bytes=").partition("-")[0]) if wanted else 0
        self.send_response(206 if wanted else 200)
        self.send_header("Content-Length", str(len(WEIGHTS) - start))
        for key, value in headers.items():
            self.send_header(key, value)
        self.end_headers()
        self.wfile.write(WEIGHTS[start : 15 * MEGABYTE if len(self.ranges) == 1 else None])
        self.close_connection = True
        return None


def test_a_connection_that_breaks_costs_what_was_not_written_yet(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(FILES, "model.safetensors", WEIGHTS)
    ranges: list[str | None] = []
    handler = type("RecordingHub", (LargeHub,), {"asked": [], "ranges": ranges})
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), handler) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        done = download(f"http://127.0.0.1:{server.server_port}", tmp_path, "hf://org/model")
        server.shutdown()
    assert done.returncode == 0, done.stderr
    assert (Path(done.stdout.strip()) / "model.safetensors").read_bytes() == WEIGHTS
    first, second = ranges
    assert first is None
    assert second is not None
    assert int(second.removeprefix("bytes=").partition("-")[0]) >= 10 * MEGABYTE


def test_what_a_pod_left_unfinished_is_removed_once_it_is_old(hub: tuple[str, list[str]], tmp_path: Path) -> None:
    url, _ = hub
    blobs = tmp_path / "models--other--model" / "blobs"
    blobs.mkdir(parents=True)
    old, new = blobs / "a.1.incomplete", blobs / "b.2.incomplete"
    for file in (old, new):
        file.write_bytes(b"half")
    day_ago = time.time() - 25 * 3600
    os.utime(old, (day_ago, day_ago))
    assert download(url, tmp_path, "hf://org/model").returncode == 0
    assert not old.exists()
    assert new.exists()
