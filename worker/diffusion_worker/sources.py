"""Where a checkpoint comes from, and its folder on this machine."""

import logging
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from diffusion_worker.config import EngineConfig

_HUB = "hf://"
# Weights as safetensors only: other formats run code when they are loaded.
_FILES = ("*.safetensors", "*.json", "*.jinja", "*.txt", "tokenizer.model")
_PROGRESS_SECONDS = 10.0
# One that is being written changes all the time.
_LEFTOVER_SECONDS = 24 * 3600

_log = logging.getLogger(__name__)


class SourceError(Exception):
    """A checkpoint that cannot be had. The message is one line: which one, why, what to do."""


def resolve_source(config: EngineConfig, *, cache: Path) -> EngineConfig:
    """`config` with a `path` that exists: checkpoints on the hub are downloaded into `cache` first.

    Blocks while it downloads. Raises SourceError.
    """
    if config.path is not None:
        if not Path(config.path).is_dir():
            raise SourceError(f"the checkpoint folder {config.path} (source {config.source}) does not exist")
        return config
    if not config.source.startswith(_HUB):
        raise SourceError(f"path is null, but only hf:// sources can be downloaded, not {config.source}")
    repository, revision = parse_hub_source(config.source, config.source_revision)
    return config.model_copy(update={"path": str(_download(repository, revision, cache))})


def parse_hub_source(source: str, revision: str | None) -> tuple[str, str | None]:
    """Repository and revision of `hf://owner/name[@revision]`; `revision`, when given, says more and must not differ."""
    repository, _, inline = source.removeprefix(_HUB).partition("@")
    if not repository or repository.startswith("/") or repository.count("/") > 1:
        raise SourceError(f"{source} is not of the form hf://owner/name or hf://owner/name@revision")
    if inline and revision and inline != revision:
        raise SourceError(f"{source} names revision {inline}, but the model's revision is {revision}; give one of them")
    return repository, revision or inline or None


@contextmanager
def hub_errors(name: str, *, cache: Path) -> Iterator[None]:
    """SourceError, with its remedy, for whatever goes wrong on the hub with the repository `name`."""
    # Imported here: a worker with a local checkpoint starts without it.
    from huggingface_hub.errors import (
        GatedRepoError,
        HfHubHTTPError,
        HFValidationError,
        LocalEntryNotFoundError,
        RepositoryNotFoundError,
        RevisionNotFoundError,
    )

    try:
        yield
    except GatedRepoError as error:
        raise SourceError(
            f"{name} is gated: accept its terms on the hub, and give the worker a token of that account in HF_TOKEN"
        ) from error
    except RevisionNotFoundError as error:
        repository, _, revision = name.removeprefix(_HUB).partition("@")
        raise SourceError(f"{repository} has no revision {revision}; use a commit, branch or tag of it") from error
    except RepositoryNotFoundError as error:
        raise SourceError(
            f"{name} does not exist, or is private: check its spelling, and HF_TOKEN when it is private"
        ) from error
    except LocalEntryNotFoundError as error:
        raise SourceError(
            f"{name} cannot be downloaded: the hub cannot be reached, and {cache} does not have it"
        ) from error
    except HFValidationError as error:
        raise SourceError(f"{name} is not a name that a repository can have; write hf://owner/name") from error
    except (HfHubHTTPError, OSError) as error:
        reason = str(error).strip().partition("\n")[0]
        raise SourceError(f"{name} cannot be downloaded: {reason}") from error


def hub_name(repository: str, revision: str | None) -> str:
    """The source as messages name it."""
    return f"{_HUB}{repository}@{revision}" if revision else f"{_HUB}{repository}"


def _download(repository: str, revision: str | None, cache: Path) -> Path:
    from huggingface_hub import snapshot_download

    name = hub_name(repository, revision)
    _log.info("downloading %s into %s", name, cache)
    _remove_leftovers(cache)
    progress = _Progress(cache)
    try:
        with hub_errors(name, cache=cache):
            folder = snapshot_download(repository, revision=revision, cache_dir=cache, allow_patterns=list(_FILES))
    finally:
        progress.stop()
    if not any(Path(folder).glob("*.safetensors")):
        raise SourceError(f"{name} has no *.safetensors at its top; convert its weights, other formats are not loaded")
    _log.info("downloaded %s: %.0f MB", name, progress.megabytes())
    return Path(folder)


def _remove_leftovers(cache: Path) -> None:
    """Files that a pod was killed over: the client begins each anew under another name, and nobody would remove them."""
    for file in cache.glob("models--*/blobs/*.incomplete"):
        with suppress(OSError):  # of another pod, which has just finished or removed it
            if time.time() - file.stat().st_mtime > _LEFTOVER_SECONDS:
                file.unlink()


class _Progress:
    """Logs how much has arrived, for whoever watches a pod that is not ready yet."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._stopped = threading.Event()
        threading.Thread(target=self._run, name="download-progress", daemon=True).start()

    def stop(self) -> None:
        self._stopped.set()

    def megabytes(self) -> float:
        files = (path for path in self._folder.rglob("*") if path.is_file() and not path.is_symlink())
        return sum(path.stat().st_size for path in files) / 1e6

    def _run(self) -> None:
        while not self._stopped.wait(_PROGRESS_SECONDS):
            try:
                _log.info("downloaded %.0f MB so far", self.megabytes())
            except FileNotFoundError:  # a file was moved to its final place meanwhile
                continue
