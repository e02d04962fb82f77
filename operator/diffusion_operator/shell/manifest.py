"""A DiffusionModel in a file, as people keep it in Git: read with every misspelt field named."""

import sys
from collections.abc import Iterator
from pathlib import Path
from types import UnionType
from typing import Any, Union, get_args, get_origin

import yaml
from pydantic import ValidationError

from diffusion_operator.api.labels import API_VERSION, KIND
from diffusion_operator.api.models import ApiModel, DiffusionModelSpec

_STANDARD_INPUT = Path("-")
# PyYAML's makers of dates, numbers and sets raise whatever Python does.
_NO_YAML = (yaml.YAMLError, ValueError, TypeError, AttributeError, KeyError, RecursionError)


class ManifestError(ValueError):
    """A file holds no DiffusionModel that can be read. The message says where and why."""


def read_manifest(path: Path, *, name: str | None = None) -> tuple[str, DiffusionModelSpec]:
    """Name and spec of the DiffusionModel in a YAML or JSON file, - for standard input; `name` chooses among several.

    Types, bounds and names of fields are checked; rules between fields only the API server knows.

    Raises:
        ManifestError: there is none, or something is wrong with it.
    """
    file = "standard input" if path == _STANDARD_INPUT else str(path)
    documents = list(_documents(_text(path, file), file))
    found = [(_name(document), document) for document in documents if _is_model(document)]
    if name is not None:
        found = [(called, document) for called, document in found if called == name]
    if len(found) != 1:
        wanted = f" called {name}" if name else ""
        names = {called for called, _ in found}
        remedy = "choose one with --name" if len(names) == len(found) else "put each in a file of its own"
        there = f"are {len(found)} ({', '.join(sorted(names))}): {remedy}" if found else "is none: give what you apply"
        raise ManifestError(f"{file} must hold one {KIND} ({API_VERSION}){wanted}; there {there}")
    ((called, document),) = found
    spec = document.get("spec")
    if not isinstance(spec, dict):
        raise ManifestError(f"{file}: {called} has no spec: write one, as in examples/storyteller.yaml")
    faults = _unknown(DiffusionModelSpec, spec, at="spec")
    try:
        return called, _without(faults, DiffusionModelSpec.model_validate(spec), file)
    except ValidationError as error:
        faults += [f"{_place(fault['loc'])}: {fault['msg']}" for fault in error.errors()]
        raise ManifestError(_said(file, faults)) from None


def _text(path: Path, file: str) -> str:
    try:
        if path != _STANDARD_INPUT:
            return path.read_text(encoding="utf-8")
        return sys.stdin.buffer.read().decode()
    except UnicodeDecodeError as error:
        raise ManifestError(
            f"{file} is not UTF-8 (byte {error.start} is {error.object[error.start]:#x}): save it so"
        ) from error
    except AttributeError:  # Python has none when it was closed
        raise ManifestError("standard input is closed: name a file") from None
    except (OSError, ValueError) as error:  # the latter for a name with a zero byte in it
        why = getattr(error, "strerror", None) or error
        raise ManifestError(f"{file} cannot be read: {why}: name a file that can, or - for standard input") from error


def _documents(text: str, file: str) -> Iterator[Any]:
    """All documents, those of a list as `kubectl get -o yaml` writes it for themselves."""
    try:
        for document in yaml.safe_load_all(text):
            if (
                isinstance(document, dict)
                and document.get("kind") == "List"
                and isinstance(document.get("items"), list)
            ):
                yield from document["items"]
            else:
                yield document
    except _NO_YAML as error:
        raise ManifestError(f"{file} is not YAML: {_yaml_fault(error)}") from error


def _yaml_fault(error: Exception) -> str:
    """What is wrong in one line, where PyYAML says it on several, and what to do."""
    mark, problem = getattr(error, "problem_mark", None), getattr(error, "problem", None)
    if mark and problem:
        return f"{problem}: look at line {mark.line + 1}, column {mark.column + 1}"
    said = " ".join(str(error).split())
    if isinstance(error, yaml.YAMLError):
        return said
    if isinstance(error, RecursionError):
        return "it is nested too deeply: make it flatter"
    return f"a date or a number in it is none ({said}): write it in quotes"


def _without(faults: list[str], spec: DiffusionModelSpec, file: str) -> DiffusionModelSpec:
    if faults:
        raise ManifestError(_said(file, faults))
    return spec


def _said(file: str, faults: list[str]) -> str:
    return "\n".join(f"{file}: {fault}" for fault in faults)


def _is_model(document: Any) -> bool:
    return isinstance(document, dict) and document.get("apiVersion") == API_VERSION and document.get("kind") == KIND


def _name(document: Any) -> str:
    metadata = document.get("metadata") if isinstance(document, dict) else None
    name = str(metadata.get("name", "(no name)")) if isinstance(metadata, dict) else "(no name)"
    return name if name.isprintable() else ascii(name)


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
