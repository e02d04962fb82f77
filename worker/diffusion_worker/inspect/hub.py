"""Facts of a checkpoint on the hub: its config.json, and the first bytes of each file of weights."""

from pathlib import Path

from diffusion_worker.inspect.config import read_shape
from diffusion_worker.inspect.errors import InspectError
from diffusion_worker.inspect.facts import ModelFacts
from diffusion_worker.inspect.folder import CONFIG, INDEX, read_json, refuse_other_layouts, weight_files
from diffusion_worker.inspect.headers import Tensor, cut_short
from diffusion_worker.inspect.weights import facts_from_tensors
from diffusion_worker.sources import SourceError, hub_errors, hub_name


def inspect_hub(repository: str, revision: str | None, *, cache: Path) -> ModelFacts:
    """Download `config.json` and the index into `cache`, and of the weights the headers only (range requests).

    A token is taken from HF_TOKEN. Raises InspectError.
    """
    # Imported here: a local checkpoint is inspected without it.
    from huggingface_hub.errors import (  # type: ignore[attr-defined]  # HTTPError is its transport's, httpx or httpx2
        HTTPError,
        SafetensorsParsingError,
    )

    name = hub_name(repository, revision)
    try:
        with hub_errors(name, cache=cache):
            return _Repository(repository, revision, cache).facts()
    except SafetensorsParsingError as error:
        raise InspectError(f"{name} has a file of weights that is not safetensors: {error}") from error
    except SourceError as error:
        raise InspectError(str(error)) from error
    except HTTPError as error:  # no connection, or one that broke
        reason = str(error) or type(error).__name__
        raise InspectError(f"{name} cannot be read, the hub cannot be reached: {reason}") from error


class _Repository:
    def __init__(self, repository: str, revision: str | None, cache: Path) -> None:
        from huggingface_hub import HfApi

        self._api = HfApi()
        self._repository = repository
        self._cache = cache
        info = self._api.model_info(repository, revision=revision, files_metadata=True)
        self._commit = info.sha  # a branch may move while we read
        self._sizes = {file.rfilename: file.size for file in info.siblings or []}

    def facts(self) -> ModelFacts:
        place = hub_name(self._repository, self._commit)
        refuse_other_layouts(self._sizes, place=place)
        shape = read_shape(read_json(self._download(CONFIG)), name=f"{place}/{CONFIG}")
        index = read_json(self._download(INDEX)) if INDEX in self._sizes else None
        # Files in folders of the repository are other formats of the same weights.
        top = [name for name in self._sizes if "/" not in name]
        tensors = [tensor for name in weight_files(top, index, place=place) for tensor in self._tensors(name)]
        return facts_from_tensors(shape, tensors, revision=self._commit)

    def _download(self, name: str) -> Path:
        return Path(self._api.hf_hub_download(self._repository, name, revision=self._commit, cache_dir=self._cache))

    def _tensors(self, name: str) -> list[Tensor]:
        header = self._api.parse_safetensors_file_metadata(self._repository, name, revision=self._commit)
        tensors = [
            Tensor(
                name=key,
                dtype=entry.dtype,
                shape=tuple(entry.shape),
                stored_bytes=entry.data_offsets[1] - entry.data_offsets[0],
            )
            for key, entry in header.tensors.items()
        ]
        size, needs = self._sizes[name], sum(tensor.stored_bytes for tensor in tensors)
        if size is not None and size < needs:
            raise cut_short(name, has=size, needs=needs)
        return tensors
