"""From the operator's ConfigMap to the folders that Triton reads."""

import shutil
from dataclasses import dataclass
from pathlib import Path

from pydantic import ValidationError

from diffusion_worker.config import EngineConfig
from diffusion_worker.triton.errors import LaunchError
from diffusion_worker.triton.installation import Triton
from diffusion_worker.wire import MODEL_NAME

MODEL_JSON = "model.json"
CONFIG_PBTXT = "config.pbtxt"
_BACKEND = Path(__file__).with_name("model.py")


@dataclass(frozen=True)
class Repository:
    """Folders of one running server."""

    models: Path
    backends: Path
    heartbeat: Path  # see heartbeat.py
    refusal: Path  # see refusal.py


def read_config(folder: Path) -> EngineConfig:
    """The `model.json` in `folder`; LaunchError when it or `config.pbtxt` is missing or wrong."""
    for name in (MODEL_JSON, CONFIG_PBTXT):
        if not (folder / name).is_file():
            raise LaunchError(
                f"{folder / name} is missing; --config must name a folder with {MODEL_JSON} and {CONFIG_PBTXT}"
            )
    try:
        return EngineConfig.model_validate_json((folder / MODEL_JSON).read_bytes())
    except ValidationError as error:
        faults = "; ".join(
            f"{'.'.join(map(str, fault['loc'])) or 'the file'}: {fault['msg']} (got {_shortened(fault['input'])})"
            for fault in error.errors()
        )
        raise LaunchError(f"{folder / MODEL_JSON} is not valid: {faults}") from error


def make_repository(root: Path, *, config: EngineConfig, config_folder: Path, triton: Triton) -> Repository:
    """Write Triton's model repository and backend directory anew under `root`, which must be writable.

    `config` is what the engine will read; it may differ from the one in `config_folder` by a resolved path.
    """
    repository = Repository(
        models=root / "models",
        backends=root / "backends",
        heartbeat=root / "heartbeat",
        refusal=root / "refusal",
    )
    try:
        for folder in (repository.models, repository.backends):
            shutil.rmtree(folder, ignore_errors=True)
        for file in (repository.heartbeat, repository.refusal):
            file.unlink(missing_ok=True)
        version = repository.models / MODEL_NAME / "1"
        version.mkdir(parents=True)
        (version / MODEL_JSON).write_text(config.model_dump_json(indent=1))
        shutil.copyfile(config_folder / CONFIG_PBTXT, repository.models / MODEL_NAME / CONFIG_PBTXT)
        python = repository.backends / "python"
        python.mkdir(parents=True)
        for file in triton.python_backend:
            shutil.copy(file, python / file.name)  # a link would be refused: it leads out of the backend directory
        ours = repository.backends / MODEL_NAME
        ours.mkdir()
        shutil.copy(_BACKEND, ours / "model.py")
    except OSError as error:
        raise LaunchError(
            f"cannot write Triton's model repository: {error}; name a writable folder with --repository"
        ) from error
    return repository


def _shortened(value: object) -> str:
    text = repr(value)
    return text if len(text) <= 80 else text[:77] + "..."
