"""Facts of models on a hub: a small one, on the loopback interface."""

import http.server
import json
import os
import subprocess
import sys
import threading
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

import pytest
from diffusion_worker.inspect.facts import ModelFacts

from tests.unit.sizing.shapes import DREAM, header

COMMIT = "0123456789abcdef0123456789abcdef01234567"
DATA_BYTES = sum(tensor.stored_bytes for tensor in DREAM.tensors)
HEADER = header(DREAM.tensors)
CONFIG = json.dumps(DREAM.config).encode()


@dataclass
class Repository:
    """Files, of which only the beginning is there: the size that is told is of the whole."""

    files: dict[str, bytes]
    sizes: dict[str, int] = field(default_factory=dict)

    def size(self, name: str) -> int:
        return self.sizes.get(name, len(self.files[name]))


REPOSITORIES = {
    "org/whole": Repository(
        {"config.json": CONFIG, "model.safetensors": HEADER, "original/other.safetensors": b""},
        {"model.safetensors": len(HEADER) + DATA_BYTES},
    ),
    "org/short": Repository({"config.json": CONFIG, "model.safetensors": HEADER}),
    "org/pickled": Repository({"config.json": CONFIG, "pytorch_model.bin": b"pickle"}),
    "org/zip": Repository({"config.json": CONFIG, "model.safetensors": b"PK\x03\x04" * 30}),
    "org/images": Repository({"model_index.json": b"{}"}),
}


class Hub(http.server.BaseHTTPRequestHandler):
    """As much of the hub's API as inspection needs."""

    sent: list[tuple[str, int]]

    def do_HEAD(self) -> None:
        self._answer(body=False)

    def do_GET(self) -> None:
        self._answer(body=True)

    def log_message(self, *_: object) -> None:
        pass

    def _answer(self, *, body: bool) -> None:
        path = self.path.partition("?")[0].removeprefix("/api/models")
        name, _, rest = path.strip("/").partition("/resolve/")
        name, _, revision = name.partition("/revision/")
        if name.startswith("gated/"):
            return self._send(403, b"", body, {"X-Error-Code": "GatedRepo"})
        repository = REPOSITORIES.get(name)
        if repository is None:
            return self._send(404, b"", body, {"X-Error-Code": "RepoNotFound"})
        if revision not in ("", "main", COMMIT):
            return self._send(404, b"", body, {"X-Error-Code": "RevisionNotFound"})
        if self.path.startswith("/api/models/"):
            files = [{"rfilename": file, "size": repository.size(file)} for file in repository.files]
            return self._send(200, json.dumps({"id": name, "sha": COMMIT, "siblings": files}).encode(), body, {})
        file = rest.partition("/")[2]
        content = repository.files[file]
        begin, _, end = self.headers.get("range", "").removeprefix("bytes=").partition("-")
        if begin:
            content = content[int(begin) : int(end) + 1]
        return self._send(206 if begin else 200, content, body, {"X-Repo-Commit": COMMIT, "ETag": f'"{file}"'})

    def _send(self, status: int, content: bytes, body: bool, headers: dict[str, str]) -> None:
        self.sent.append((self.path, len(content) if body else 0))
        self.send_response(status)
        for key, value in {"Content-Type": "application/json", "Content-Length": str(len(content)), **headers}.items():
            self.send_header(key, value)
        self.end_headers()
        if body:
            self.wfile.write(content)


@dataclass
class RunningHub:
    url: str
    sent: list[tuple[str, int]]


@pytest.fixture
def hub() -> Iterator[RunningHub]:
    sent: list[tuple[str, int]] = []
    handler = type("RecordingHub", (Hub,), {"sent": sent})
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), handler) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield RunningHub(f"http://127.0.0.1:{server.server_port}", sent)
        server.shutdown()


def inspect(url: str, source: str, cache: Path) -> subprocess.CompletedProcess[str]:
    """In a process of its own: the hub's client reads its endpoint once."""
    environment = {name: value for name, value in os.environ.items() if not name.startswith("HF_")}
    command = [sys.executable, "-m", "diffusion_worker", "inspect", source, "--output", "json", "--cache", str(cache)]
    return subprocess.run(
        command,
        capture_output=True,
        text=True,
        check=False,
        env=environment | {"HF_ENDPOINT": url, "HF_HUB_DISABLE_XET": "1", "NO_PROXY": "127.0.0.1"},
    )


def test_only_config_json_and_headers_are_read(hub: RunningHub, tmp_path: Path) -> None:
    done = inspect(hub.url, "hf://org/whole", tmp_path)
    assert done.returncode == 0, done.stderr
    facts = ModelFacts.model_validate_json(done.stdout)
    assert facts == DREAM.facts.model_copy(update={"revision": COMMIT})
    assert sum(size for _, size in hub.sent) < 200_000 < DATA_BYTES
    assert all(COMMIT in path for path, _ in hub.sent if "/resolve/" in path)  # what was listed is what is read


@pytest.mark.parametrize(
    ("source", "words"),
    [
        ("hf://gated/model", "is gated: accept its terms on the hub, and give the worker a token"),
        ("hf://org/", "is not a name that a repository can have; write hf://owner/name"),
        ("hf://org/a b", "is not a name that a repository can have"),
        ("hf://nobody/nothing", "does not exist, or is private"),
        (
            "hf://org/whole@no-such-branch",
            "org/whole has no revision no-such-branch; use a commit, branch or tag of it",
        ),
        ("hf://org/short", "model.safetensors is cut short"),
        ("hf://org/pickled", "pytorch_model.bin is pickled, and unpickling can run any code: convert it"),
        ("hf://org/zip", "has a file of weights that is not safetensors"),
        ("hf://org/images", "it is not a language model in Hugging Face's layout"),
    ],
)
def test_what_cannot_be_inspected_is_said_with_the_remedy(
    hub: RunningHub, tmp_path: Path, source: str, words: str
) -> None:
    done = inspect(hub.url, source, tmp_path)
    assert done.returncode == 2
    assert done.stderr.startswith("diffusion-worker: ")
    assert words in done.stderr
    assert done.stderr.count("\n") == 1


def test_a_hub_that_cannot_be_reached_is_said(tmp_path: Path) -> None:
    done = inspect("http://127.0.0.1:9", "hf://org/whole", tmp_path)
    assert done.returncode == 2
    assert "the hub cannot be reached" in done.stderr
