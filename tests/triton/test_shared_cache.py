"""Pods that share a cache download a checkpoint once. The hub is a small one, on the loopback interface."""

import http.server
import threading
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from tests.triton.test_sources import Hub, download


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
