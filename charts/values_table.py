"""The table of values in the chart's README, made from the `# --` comments of values.yaml.

`python charts/values_table.py` writes it, `--check` exits with 1 when the README is out of date.
"""

import argparse
import json
import re
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import yaml

CHART = Path(__file__).resolve().parent / "diffusion-operator"
BEGIN = "<!-- values: generated from values.yaml by charts/values_table.py -->"
END = "<!-- end of values -->"

_KEY = re.compile(r"^(?P<indent> *)(?P<key>[A-Za-z]\w*):")
_COMMENT = re.compile(r"^ *# (?P<text>.*)$")


@dataclass(frozen=True, kw_only=True)
class Value:
    """One documented value: its dotted path, its default as JSON and what it is for."""

    path: str
    default: str
    description: str


def leaves(values: object, path: str = "") -> Iterator[tuple[str, object]]:
    """Every path with its default, down to scalars, lists and empty maps."""
    if isinstance(values, dict) and values:
        for key, value in values.items():
            yield from leaves(value, f"{path}.{key}" if path else key)
    else:
        yield path, values


def descriptions(text: str) -> dict[str, str]:
    """The `# --` comment of each key in values.yaml, by the key's dotted path."""
    found: dict[str, str] = {}
    parents: list[tuple[int, str]] = []
    comment: list[str] = []
    for line in text.splitlines():
        if matched := _COMMENT.match(line):
            said = matched["text"]
            comment = [said.removeprefix("-- ")] if said.startswith("-- ") else [*comment, said] if comment else []
        elif matched := _KEY.match(line):
            indent = len(matched["indent"])
            parents = [*((depth, key) for depth, key in parents if depth < indent), (indent, matched["key"])]
            if comment:
                found[".".join(key for _, key in parents)] = " ".join(comment)
            comment = []
        else:
            comment = []
    return found


def table(text: str) -> list[Value]:
    """The rows: a described map such as `resources` is one row, everything else one row per leaf.

    Raises ValueError for a value without a comment.
    """
    said = descriptions(text)
    values = yaml.safe_load(text)
    rows: dict[str, Value] = {}
    for leaf, _ in leaves(values):
        parts = leaf.split(".")
        prefixes = [".".join(parts[: length + 1]) for length in range(len(parts))]
        path = next((prefix for prefix in prefixes if prefix in said), None)
        if path is None:
            raise ValueError(f"{leaf} has no comment in values.yaml: put a line that starts with '# -- ' above it")
        if path not in rows:
            default = values
            for part in path.split("."):
                default = default[part]
            rows[path] = Value(path=path, default=json.dumps(default), description=said[path])
    return list(rows.values())


def readme(text: str, rows: list[Value]) -> str:
    """The README's text with the table between its two markers replaced."""
    before, _, rest = text.partition(BEGIN)
    _, _, after = rest.partition(END)
    lines = [f"| `{row.path}` | `{row.default}` | {row.description} |" for row in rows]
    return "\n".join(
        [f"{before}{BEGIN}", "| value | default | what it does |", "|---|---|---|", *lines, f"{END}{after}"]
    )


def main() -> int:
    """Run from the command line; the exit status is 1 when --check finds the README out of date."""
    parser = argparse.ArgumentParser(description="Write the table of values into the chart's README.")
    parser.add_argument("--check", action="store_true", help="change nothing, exit with 1 when it is out of date")
    target = CHART / "README.md"
    current = target.read_text()
    wanted = readme(current, table((CHART / "values.yaml").read_text()))
    if parser.parse_args().check:
        if current != wanted:
            sys.stderr.write(f"{target} is out of date: run python charts/values_table.py\n")
        return int(current != wanted)
    target.write_text(wanted)
    return 0


if __name__ == "__main__":
    sys.exit(main())
