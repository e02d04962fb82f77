"""From a model source, as resources name it, to its facts."""

from pathlib import Path

from diffusion_worker.inspect.errors import InspectError
from diffusion_worker.inspect.facts import ModelFacts
from diffusion_worker.inspect.folder import inspect_folder
from diffusion_worker.inspect.hub import inspect_hub
from diffusion_worker.sources import SourceError, parse_hub_source

MOUNT = Path("/models/source")  # where the operator mounts claims and images


def inspect_source(source: str, *, revision: str | None, cache: Path, mount: Path = MOUNT) -> ModelFacts:
    """Facts of hf://, file://, pvc:// and image:// sources, or of a plain folder. Raises InspectError.

    Claims and images are read where the operator mounts them: below `mount`.
    """
    scheme, separator, rest = source.partition("://")
    if separator and scheme == "hf":
        try:
            repository, commit = parse_hub_source(source, revision)
        except SourceError as error:
            raise InspectError(str(error)) from error
        return inspect_hub(repository, commit, cache=cache)
    if revision is not None:
        raise InspectError(f"{source} has no revisions: --revision is for hf:// sources")
    if not separator:
        return inspect_folder(Path(source))
    match scheme:
        case "file":
            return inspect_folder(Path(rest))
        case "image":
            return _mounted(source, mount)
        case "pvc":
            return _mounted(source, mount / rest.partition("/")[2].strip("/"))
    raise InspectError(f"{source} is not a model source: write hf://, pvc://, image://, file:///path or a folder")


def _mounted(source: str, folder: Path) -> ModelFacts:
    if not folder.is_dir():
        raise InspectError(f"{source} is not mounted: there is no folder {folder}; --mount says where its mount is")
    return inspect_folder(folder)
