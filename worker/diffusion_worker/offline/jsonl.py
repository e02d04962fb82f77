"""Files of work and of results: one JSON object per line, each with an `id`."""

import json
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Self

from diffusion_worker.offline.errors import OfflineError

JsonObject = dict[str, Any]

_BEGINNING = '{"id": '  # of every result


@dataclass(frozen=True)
class Line:
    """One piece of work."""

    id: str
    fields: JsonObject  # without the id


def read_lines(path: Path) -> list[Line]:
    """All work in a file. A line without `id` is called by its number. OfflineError names the first line that is wrong."""
    lines: dict[str, Line] = {}
    for number, text in _texts(path):
        fields = _object(text)
        if fields is None:
            raise OfflineError(f"{path}, line {number}: not a JSON object: {text[:60]}")
        name = fields.pop("id", str(number))
        if not isinstance(name, str | int) or isinstance(name, bool):
            raise OfflineError(f"{path}, line {number}: the id {name!r} must be a string or a whole number")
        if str(name) in lines:
            raise OfflineError(f"{path}, line {number}: the id {name!r} is there twice")
        lines[str(name)] = Line(id=str(name), fields=fields)
    if not lines:
        raise OfflineError(f"{path} has no lines")
    return list(lines.values())


class Results:
    """The file that results are appended to, each written out at once, so that a run can go on where it was stopped.

    Opening it keeps the lines that need not be done again, and drops the rest: a last line cut short, and failures
    that another try may mend. A file that holds anything else is not touched.
    """

    def __init__(self, path: Path, *, known: set[str], outcome: str, is_final: Callable[[JsonObject], bool]) -> None:
        """`known` are the ids of the work; every result has the field `outcome`, or `error`.

        OfflineError when the file has results of other work, or something else.
        """
        kept: list[str] = []
        self.done: set[str] = set()
        lines = list(_texts(path, errors="replace")) if path.exists() else []  # one may end inside a character
        for number, text in lines:
            result = _object(text)
            if result is None and number == lines[-1][0] and _may_be_cut_short(text):
                continue
            if result is None or not isinstance(result.get("id"), str) or not {outcome, "error"} & result.keys():
                raise OfflineError(
                    f"{path}, line {number}: not a result of this command: {text[:60]}; name another --output"
                )
            if result["id"] not in known:
                raise OfflineError(
                    f"{path}, line {number}: a result for {result['id']!r}, which the input does not have; "
                    "name another --output for other work"
                )
            if is_final(result):
                self.done.add(result["id"])
                kept.append(text)
        try:
            _replace(path, kept)
            self._file = path.open("a", encoding="utf-8")
        except OSError as error:
            raise OfflineError(f"{path} cannot be written: {error}") from error

    def write(self, result: JsonObject) -> None:
        """Append one result; OfflineError when there is no room for it."""
        try:
            self._file.write(json.dumps(result, ensure_ascii=False) + "\n")
            self._file.flush()
        except OSError as error:
            raise OfflineError(f"{self._file.name} cannot be written: {error}") from error

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._file.close()


def _texts(path: Path, *, errors: str = "strict") -> Iterator[tuple[int, str]]:
    """Lines that are not empty, with their numbers from 1."""
    try:
        with path.open(encoding="utf-8-sig", errors=errors) as file:
            for number, text in enumerate(file, start=1):
                if text.strip():
                    yield number, text.strip()
    except (OSError, UnicodeDecodeError) as error:
        raise OfflineError(f"{path} cannot be read: {error}") from error


def _may_be_cut_short(text: str) -> bool:
    """Whether a result begins like this."""
    return text.startswith(_BEGINNING) or _BEGINNING.startswith(text)


def _object(text: str) -> JsonObject | None:
    try:
        value = json.loads(text)
    except (ValueError, RecursionError):  # the latter where brackets are nested too deep
        return None
    return value if isinstance(value, dict) else None


def _replace(path: Path, lines: list[str]) -> None:
    """Write the file anew; whoever reads it meanwhile sees the old one or the new one."""
    new = path.with_name(f"{path.name}.new")
    new.write_text("".join(f"{line}\n" for line in lines), encoding="utf-8")
    new.replace(path)
