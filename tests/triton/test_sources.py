"""Where a checkpoint comes from: a local folder, or a hub (a small one, on the loopback interface)."""

import http.server
import json
import os
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest
from diffusion_worker.config import EngineConfig
from diffusion_worker.sources import SourceError, parse_hub_source, resolve_source

COMMIT = "0123456789abcdef0123456789abcdef01234567"
FILES = {
    "config.json": b"{}",
    "model.safetensors": b"weights",
    "pytorch_model.bin": b"a pickle",
    "run.py": b"code",
    "tokenizer.json": b"{}",
}


class Hub(http.server.BaseHTTPRequestHandler):
    """As much of the hub's API as a snapshot download needs."""

    asked: list[str]

    def do_HEAD(self) -> None:
        self._answer(body=False)

    def do_GET(self) -> None:
        self._answer(body=True)

    def log_message(self, *_: object) -> None:
        pass

    def _answer(self, *, body: bool) -> None:
        self.asked.append(self.path)
        if self.path.startswith(("/api/models/gated/", "/gated/")):
            return self._send(403, b"", body, {"X-Error-Code": "GatedRepo"})
        if not self.path.startswith(("/api/models/org/", "/org/")):
            return self._send(404, b"", body, {"X-Error-Code": "RepoNotFound"})
        if self.path.startswith("/api/models/"):
            if "/revision/" in self.path and not self.path.split("/revision/")[1].startswith(("main", COMMIT)):
                return self._send(404, b"", body, {"X-Error-Code": "RevisionNotFound"})
            names = [name for name in FILES if "bare" not in self.path or not name.endswith(".safetensors")]
            repository = "/".join(self.path.split("/")[3:5])
            info = {"id": repository, "sha": COMMIT, "siblings": [{"rfilename": name} for name in names]}
            if "/tree/" in self.path:
                tree = [{"type": "file", "path": name, "size": len(FILES[name]), "oid": name} for name in names]
                return self._send(200, json.dumps(tree).encode(), body, {})
            return self._send(200, json.dumps(info).encode(), body, {})
        name = self.path.rpartition("/")[2]
        return self._send(200, FILES[name], body, {"X-Repo-Commit": COMMIT, "ETag": f'"{name}"'})

    def _send(self, status: int, content: bytes, body: bool, headers: dict[str, str]) -> None:
        self.send_response(status)
        for key, value in {"Content-Type": "application/json", "Content-Length": str(len(content)), **headers}.items():
            self.send_header(key, value)
        self.end_headers()
        if body:
            self.wfile.write(content)


@pytest.fixture
def hub() -> Iterator[str]:
    handler = type("RecordingHub", (Hub,), {"asked": []})
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), handler) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield f"http://127.0.0.1:{server.server_port}"
        server.shutdown()


def config(**settings: object) -> EngineConfig:
    return EngineConfig.model_validate(
        {"kind": "ar", "model": "m", "revision": "0", "source": "hf://org/model"} | settings
    )


def download(hub: str, cache: Path, source: str) -> subprocess.CompletedProcess[str]:
    """In a process of its own: the hub's client reads its endpoint once."""
    program = (
        "import sys; from pathlib import Path; from diffusion_worker.config import EngineConfig;"
        "from diffusion_worker.sources import SourceError, resolve_source\n"
        "config = EngineConfig(kind='ar', model='m', revision='0', source=sys.argv[1])\n"
        "try: print(resolve_source(config, cache=Path(sys.argv[2])).path)\n"
        "except SourceError as error: sys.exit(f'SourceError: {error}')"
    )
    environment = {name: value for name, value in os.environ.items() if not name.startswith("HF_")}
    return subprocess.run(
        [sys.executable, "-c", program, source, str(cache)],
        capture_output=True,
        text=True,
        check=False,
        env=environment | {"HF_ENDPOINT": hub, "HF_HUB_DISABLE_XET": "1", "NO_PROXY": "127.0.0.1"},
    )


def test_a_checkpoint_on_the_hub_is_downloaded_without_pickles_and_code(hub: str, tmp_path: Path) -> None:
    done = download(hub, tmp_path, "hf://org/model")
    assert done.returncode == 0, done.stderr
    folder = Path(done.stdout.strip())
    assert folder.is_relative_to(tmp_path)
    assert sorted(path.name for path in folder.iterdir()) == ["config.json", "model.safetensors", "tokenizer.json"]


@pytest.mark.parametrize(
    ("source", "words"),
    [
        ("hf://gated/model", "is gated: accept its terms on the hub"),
        ("hf://nobody/nothing", "does not exist, or is private"),
        ("hf://org/model@no-such-branch", "has no revision no-such-branch"),
        ("hf://org/bare", "has no *.safetensors"),
    ],
)
def test_what_cannot_be_downloaded_is_said_with_the_remedy(hub: str, tmp_path: Path, source: str, words: str) -> None:
    done = download(hub, tmp_path, source)
    assert done.returncode == 1
    assert done.stderr.splitlines()[-1].startswith("SourceError: ")
    assert words in done.stderr.splitlines()[-1]


def test_a_hub_that_cannot_be_reached_is_said(tmp_path: Path) -> None:
    done = download("http://127.0.0.1:9", tmp_path, "hf://org/model")
    assert "hub cannot be reached" in done.stderr.splitlines()[-1]


def test_a_local_folder_is_used_as_it_is(tmp_path: Path) -> None:
    local = config(source=f"file://{tmp_path}", path=str(tmp_path))
    assert resolve_source(local, cache=tmp_path / "cache") is local
    assert not (tmp_path / "cache").exists()


def test_a_local_folder_that_is_missing_is_named(tmp_path: Path) -> None:
    with pytest.raises(SourceError, match=r"nowhere .*does not exist"):
        resolve_source(config(source="pvc://claim/nowhere", path=str(tmp_path / "nowhere")), cache=tmp_path)


@pytest.mark.parametrize(
    ("source", "revision", "expected"),
    [
        ("hf://org/model", None, ("org/model", None)),
        ("hf://org/model@main", None, ("org/model", "main")),
        ("hf://org/model", COMMIT, ("org/model", COMMIT)),
        ("hf://org/model@main", "main", ("org/model", "main")),
    ],
)
def test_repository_and_revision_of_a_source(
    source: str, revision: str | None, expected: tuple[str, str | None]
) -> None:
    assert parse_hub_source(source, revision) == expected


@pytest.mark.parametrize(("source", "revision"), [("hf://", None), ("hf://a/b/c", None), ("hf://org/model@a", "b")])
def test_a_source_that_says_too_little_or_two_things_is_refused(source: str, revision: str | None) -> None:
    with pytest.raises(SourceError):
        parse_hub_source(source, revision)
