"""An image is built again when, and only when, something that goes into it has changed."""

import json
import socket
import tarfile
from pathlib import Path

import pytest

from cluster import images, paths, scratch_image
from cluster.errors import ClusterError

CONTAINERFILE = """\
FROM debian
COPY requirements.txt /tmp/
COPY --chmod=755 code \\
     /src/code
COPY --from=other /a /b
"""


@pytest.fixture
def checkout(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    (tmp_path / "images").mkdir()
    (tmp_path / "images" / "Containerfile.worker").write_text(CONTAINERFILE)
    (tmp_path / "requirements.txt").write_text("torch\n")
    (tmp_path / "code" / "__pycache__").mkdir(parents=True)
    (tmp_path / "code" / "main.py").write_text("print()\n")
    monkeypatch.setattr(paths, "REPOSITORY", tmp_path)
    return tmp_path


@pytest.mark.parametrize("changed", ["requirements.txt", "code/main.py", "code/new.py", "images/Containerfile.worker"])
def test_a_changed_input_changes_the_tag(checkout: Path, changed: str) -> None:
    before = images.tag("worker")

    with (checkout / changed).open("a") as file:
        file.write("# changed\n")

    assert images.tag("worker") != before


def test_a_program_that_became_executable_changes_the_tag(checkout: Path) -> None:
    before = images.tag("worker")

    (checkout / "code" / "main.py").chmod(0o755)

    assert images.tag("worker") != before


@pytest.mark.parametrize("generated", ["code/__pycache__/main.pyc", "README.md"])
def test_a_file_that_is_not_copied_does_not_change_the_tag(checkout: Path, generated: str) -> None:
    before = images.tag("worker")

    (checkout / generated).write_text("whatever")

    assert images.tag("worker") == before


def test_a_program_makes_an_image_of_its_own(tmp_path: Path) -> None:
    program = tmp_path / "pause"
    program.write_bytes(b"\x7fELF")

    scratch_image.write(tmp_path / "image.tar", reference="registry.local/pause:1", program=program)

    with tarfile.open(tmp_path / "image.tar") as archive:
        manifest = json.load(archive.extractfile("manifest.json"))[0]  # type: ignore[arg-type]
        configuration = json.load(archive.extractfile(manifest["Config"]))  # type: ignore[arg-type]
        with tarfile.open(fileobj=archive.extractfile(manifest["Layers"][0])) as layer:
            entry = layer.getmember("pause")
    assert manifest["RepoTags"] == ["registry.local/pause:1"]
    assert configuration["config"]["Entrypoint"] == ["/pause"]
    assert entry.mode == 0o755


def test_a_registry_that_does_not_answer_is_named() -> None:
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        address = f"127.0.0.1:{listener.getsockname()[1]}"

        with pytest.raises(ClusterError, match=f"the registry at {address} does not answer"):
            images._registry_has(address, "diffusion-worker:0")
