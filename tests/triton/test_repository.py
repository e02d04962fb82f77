"""From the ConfigMap's folder to Triton's, and what is refused on the way."""

import json
import subprocess
import sys
from pathlib import Path

import pytest
from diffusion_worker.triton.errors import LaunchError
from diffusion_worker.triton.installation import Triton, find_triton
from diffusion_worker.triton.repository import make_repository, read_config

from tests.triton.worker import write_config


def _triton(tmp_path: Path) -> Triton:
    stub = tmp_path / "stub"
    stub.write_text("")
    stub.chmod(0o755)
    return Triton(server=tmp_path / "tritonserver", python_backend=(stub,), library_folders=())


def test_the_repository_holds_the_resolved_configuration_and_the_backend(tmp_path: Path) -> None:
    config_folder = write_config(tmp_path / "config", checkpoint=tmp_path)
    config = read_config(config_folder).model_copy(update={"path": "/somewhere/else"})
    made = make_repository(tmp_path / "run", config=config, config_folder=config_folder, triton=_triton(tmp_path))
    assert json.loads((made.models / "dlm" / "1" / "model.json").read_text())["path"] == "/somewhere/else"
    assert 'backend: "dlm"' in (made.models / "dlm" / "config.pbtxt").read_text()
    assert "class TritonPythonModel" in (made.backends / "dlm" / "model.py").read_text()
    assert (made.backends / "python" / "stub").stat().st_mode & 0o111


def test_a_restart_leaves_nothing_of_the_run_before(tmp_path: Path) -> None:
    config_folder = write_config(tmp_path / "config", checkpoint=tmp_path)
    for _ in range(2):
        made = make_repository(
            tmp_path / "run", config=read_config(config_folder), config_folder=config_folder, triton=_triton(tmp_path)
        )
        assert not made.heartbeat.exists()
        assert [path.name for path in made.models.iterdir()] == ["dlm"]
        made.heartbeat.write_text("17.0")
        (made.models / "left-over").mkdir()


def test_a_folder_that_cannot_be_written_is_named(tmp_path: Path) -> None:
    config_folder = write_config(tmp_path / "config", checkpoint=tmp_path)
    (tmp_path / "file").write_text("")
    with pytest.raises(LaunchError, match=r"file.*name a writable folder with --repository"):
        make_repository(
            tmp_path / "file", config=read_config(config_folder), config_folder=config_folder, triton=_triton(tmp_path)
        )


@pytest.mark.parametrize("missing", ["model.json", "config.pbtxt"])
def test_a_missing_file_is_named(tmp_path: Path, missing: str) -> None:
    folder = write_config(tmp_path, checkpoint=tmp_path)
    (folder / missing).unlink()
    with pytest.raises(LaunchError, match=f"{missing} is missing"):
        read_config(folder)


@pytest.mark.parametrize(
    ("settings", "words"),
    [
        ({"max_batch_size": 0}, r"max_batch_size: .*greater than or equal to 1 \(got 0\)"),
        ({"kind": "gan"}, r"kind: .*'diffusion' or 'ar' \(got 'gan'\)"),
        ({"sampler": {"top_p": 2}}, r"sampler\.top_p: .*less than or equal to 1 \(got 2\)"),
        ({"colour": "red"}, r"colour: Extra inputs are not permitted \(got 'red'\)"),
    ],
)
def test_a_wrong_field_is_named_with_its_value(tmp_path: Path, settings: dict[str, object], words: str) -> None:
    with pytest.raises(LaunchError, match=words):
        read_config(write_config(tmp_path, checkpoint=tmp_path, **settings))


def test_the_command_says_in_one_line_what_is_wrong_and_exits_with_2(tmp_path: Path) -> None:
    done = subprocess.run(
        [sys.executable, "-m", "diffusion_worker", "serve", "--config", str(tmp_path)],
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 2
    assert done.stderr.splitlines() == [
        f"diffusion-worker: {tmp_path}/model.json is missing; --config must name a folder with model.json and config.pbtxt"
    ]


def test_tritons_own_image_comes_before_the_wheel(tmp_path: Path) -> None:
    for file in (
        "bin/tritonserver",
        "backends/python/libtriton_python.so",
        "backends/python/triton_python_backend_stub",
    ):
        (tmp_path / file).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / file).write_text("")
    found = find_triton(tmp_path)
    assert found.server == tmp_path / "bin" / "tritonserver"
    assert [path.name for path in found.python_backend] == ["libtriton_python.so", "triton_python_backend_stub"]


def test_the_stub_gets_this_pythons_packages_and_libraries_first(tmp_path: Path) -> None:
    environment = find_triton(tmp_path).environment(
        {"PATH": "/usr/bin", "LD_LIBRARY_PATH": "/cuda", "PYTHONPATH": "/elsewhere", "LANG": "C"}
    )
    assert environment["PATH"] == f"{Path(sys.executable).parent}:/usr/bin"
    assert environment["LD_LIBRARY_PATH"].endswith(":/cuda")
    assert environment["LANG"] == "C"
    assert "PYTHONPATH" not in environment
