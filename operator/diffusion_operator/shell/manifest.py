"""A DiffusionModel in a file, as people keep it in Git: read with every misspelt field named."""

from pathlib import Path
from types import UnionType
from typing import Any, Union, get_args, get_origin

import yaml
from pydantic import ValidationError

from diffusion_operator.api.labels import API_VERSION, KIND
from diffusion_operator.api.models import ApiModel, DiffusionModelSpec


class ManifestError(ValueError):
    """A file holds no DiffusionModel that can be read. The message says where and why."""


def read_manifest(path: Path, *, name: str | None = None) -> tuple[str, DiffusionModelSpec]:
    """Name and spec of the DiffusionModel in a YAML or JSON file; `name` chooses among several.

    Types, bounds and names of fields are checked; rules between fields only the API server knows.

    Raises:
        ManifestError: there is none, or something is wrong with it.
    """
    try:
        documents = [document for document in yaml.safe_load_all(path.read_text(encoding="utf-8")) if document]
    except OSError as error:
        raise ManifestError(f"{path} cannot be read: {error.strerror}") from error
    except (yaml.YAMLError, UnicodeDecodeError, RecursionError) as error:
        raise ManifestError(f"{path} is not YAML: {error}") from error
    found = [(_name(document), document) for document in documents if _is_model(document)]
    if name is not None:
        found = [(called, document) for called, document in found if called == name]
    if len(found) != 1:
        wanted = f" called {name}" if name else ""
        names = {called for called, _ in found}
        remedy = "choose one with --name" if len(names) == len(found) else "put each in a file of its own"
        there = f"are {len(found)} ({', '.join(sorted(names))}): {remedy}" if found else "is none"
        raise ManifestError(f"{path} must hold one {KIND} ({API_VERSION}){wanted}; there {there}")
    ((called, document),) = found
    spec = document.get("spec")
    if not isinstance(spec, dict):
        raise ManifestError(f"{path}: {called} has no spec")
    faults = _unknown(DiffusionModelSpec, spec, at="spec")
    try:
        return called, _without(faults, DiffusionModelSpec.model_validate(spec), path)
    except ValidationError as error:
        faults += [f"{_place(fault['loc'])}: {fault['msg']}" for fault in error.errors()]
        raise ManifestError(_said(path, faults)) from None


def _without(faults: list[str], spec: DiffusionModelSpec, path: Path) -> DiffusionModelSpec:
    if faults:
        raise ManifestError(_said(path, faults))
    return spec


def _said(path: Path, faults: list[str]) -> str:
    return "\n".join(f"{path}: {fault}" for fault in faults)


def _is_model(document: Any) -> bool:
    return isinstance(document, dict) and document.get("apiVersion") == API_VERSION and document.get("kind") == KIND


def _name(document: Any) -> str:
    metadata = document.get("metadata") if isinstance(document, dict) else None
    return str(metadata.get("name", "(no name)")) if isinstance(metadata, dict) else "(no name)"


def _place(location: tuple[str | int, ...]) -> str:
    return ".".join(("spec", *(str(part) for part in location)))


def _unknown(model: type[ApiModel], data: dict[str, Any], *, at: str) -> list[str]:
    """Fields that the model does not have. It ignores them, for the sake of upgrades; the API server refuses them."""
    fields = {field.alias or name: field.annotation for name, field in model.model_fields.items()}
    faults = []
    for key, value in data.items():
        if key not in fields:
            faults.append(f"{at}.{key}: there is no such field; there are {', '.join(sorted(fields))}")
        elif isinstance(value, dict) and (part := _model_in(fields[key])):
            faults += _unknown(part, value, at=f"{at}.{key}")
    return faults


def _model_in(annotation: Any) -> type[ApiModel] | None:
    options = get_args(annotation) if get_origin(annotation) in {Union, UnionType} else (annotation,)
    return next((one for one in options if isinstance(one, type) and issubclass(one, ApiModel)), None)
