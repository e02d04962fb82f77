"""Facts of a checkpoint in a folder."""

import json
from collections.abc import Collection, Mapping
from pathlib import Path
from typing import Any

from diffusion_worker.inspect.config import read_shape
from diffusion_worker.inspect.errors import InspectError
from diffusion_worker.inspect.facts import ModelFacts
from diffusion_worker.inspect.headers import read_header
from diffusion_worker.inspect.weights import facts_from_index, facts_from_tensors

CONFIG = "config.json"
INDEX = "model.safetensors.index.json"
SINGLE = "model.safetensors"
_PICKLED = (".bin", ".pt", ".pth", ".ckpt")


def inspect_folder(folder: Path, *, may_lack_data: bool = False) -> ModelFacts:
    """Read `config.json` and the headers of the weights.

    With `may_lack_data` the folder is one for planning: files may end after their headers, or only the index is there.
    Raises InspectError.
    """
    if not folder.is_dir():
        raise InspectError(f"there is no folder {folder}")
    try:
        names = {path.name for path in folder.iterdir()}
    except OSError as error:
        raise InspectError(f"{folder} cannot be read: {error.strerror}") from error
    refuse_other_layouts(names, place=str(folder))
    shape = read_shape(read_json(folder / CONFIG), name=str(folder / CONFIG))
    index = read_json(folder / INDEX) if INDEX in names else None
    if index is not None and may_lack_data and not any(name.endswith(".safetensors") for name in names):
        return facts_from_index(shape, index, name=str(folder / INDEX))
    files = weight_files(names, index, place=str(folder))
    tensors = [tensor for name in files for tensor in read_header(folder / name, may_lack_data=may_lack_data)]
    return facts_from_tensors(shape, tensors)


def refuse_other_layouts(names: Collection[str], *, place: str) -> None:
    """InspectError when these files are no checkpoint in transformers' layout."""
    if CONFIG not in names:
        kind = (
            " (model_index.json is of a diffusers pipeline, such as one for images)"
            if "model_index.json" in names
            else ""
        )
        raise InspectError(f"{place} has no {CONFIG}: it is not a language model in Hugging Face's layout{kind}")


def weight_files(names: Collection[str], index: Mapping[str, Any] | None, *, place: str) -> list[str]:
    """The files that transformers would load: `model.safetensors`, else those of the index, else all safetensors."""
    if SINGLE in names:
        return [SINGLE]
    if index is not None:
        weight_map = index.get("weight_map")
        if not isinstance(weight_map, dict) or not all(isinstance(name, str) for name in weight_map.values()):
            raise InspectError(f"{place}/{INDEX} has no weight_map: it is not the index of a checkpoint")
        wanted = sorted(set(weight_map.values()))
        missing = [name for name in wanted if name not in names]
        if missing:
            raise InspectError(
                f"{place} lacks {len(missing)} of {len(wanted)} weight files, among them {missing[0]}; "
                "is the download complete?"
            )
        return wanted
    found = sorted(name for name in names if name.endswith(".safetensors"))
    if found:
        return found
    pickled = sorted(name for name in names if name.endswith(_PICKLED))
    raise InspectError(
        f"{place} has no *.safetensors"
        + (f"; {pickled[0]} is pickled, and unpickling can run any code: convert it" if pickled else "")
    )


def read_json(path: Path) -> dict[str, Any]:
    """The object that a file holds; InspectError when it holds none."""
    try:
        content = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError, RecursionError) as error:  # the last where brackets are nested too deep
        raise InspectError(f"{path} cannot be read as JSON: {error}") from error
    if not isinstance(content, dict):
        raise InspectError(f"{path} does not hold a JSON object")
    return content
