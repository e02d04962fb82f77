"""Results as JSON files, one for each benchmark."""

import dataclasses
import json
from pathlib import Path
from typing import Any

from benchmarks.machine import REPOSITORY

FOLDER = REPOSITORY / "benchmarks" / "results"


def write(path: Path, content: dict[str, Any]) -> None:
    """Write a file in one go: whoever reads it sees the old one or the new one. Dataclasses become objects."""
    path.parent.mkdir(parents=True, exist_ok=True)
    new = path.with_name(f"{path.name}.new")
    new.write_text(json.dumps(content, indent=2, ensure_ascii=False, default=_plain) + "\n", encoding="utf-8")
    new.replace(path)


def read(path: Path) -> dict[str, Any] | None:
    """A file's content; None when there is none."""
    if not path.exists():
        return None
    content: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))
    return content


def _plain(value: Any) -> Any:
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        return dataclasses.asdict(value)
    raise TypeError(f"{type(value).__name__} has no place in a result file")
