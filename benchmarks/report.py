"""From results to the tables of docs/benchmarks.md and docs/sizing.md: `python -m benchmarks.report`.

A table stands in a page between `<!-- table: NAME -->` and `<!-- end -->`; what is between them is written here and nowhere else.
"""

import argparse
import re
import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from benchmarks import results, tables
from benchmarks.machine import REPOSITORY
from benchmarks.sizing.tables import of_checkpoints

PAGES = (REPOSITORY / "docs" / "benchmarks.md", REPOSITORY / "docs" / "sizing.md")
_BLOCK = re.compile(r"(<!-- table: (?P<name>[a-z-]+) -->\n).*?(<!-- end -->)", re.DOTALL)


@dataclass(frozen=True)
class Source:
    """Where a table's numbers come from."""

    file: str  # under benchmarks/results
    key: str  # that must be there
    render: Callable[[dict[str, Any]], str]
    command: str  # that measures it


SOURCES = {
    "same-work": Source("peers.json", "same_work", tables.same_work, "make bench-peers"),
    "real-load": Source("peers.json", "real_load", tables.real_load, "make bench-peers"),
    "gateway": Source("gateway.json", "machine", tables.gateway, "python -m benchmarks.gateway"),
    "scoring": Source("scoring.json", "machine", tables.scoring, "python -m benchmarks.gateway.scoring"),
    "sizing": Source("sizing.json", "machine", of_checkpoints, "python -m benchmarks.sizing"),
    "operator": Source("operator.json", "sizes", tables.operator, "make bench-operator"),
    **{
        name: Source(f"{name}.json", "machine", render, f"python -m benchmarks.engine {name}")
        for name, render in tables.ENGINE.items()
    },
}


def rendered(name: str, folder: Path) -> str:
    """A table, or a line that says how to get it."""
    source = SOURCES[name]
    content = results.read(folder / source.file) or {}
    return source.render(content) if source.key in content else f"Not measured yet: `{source.command}`."


def fill(page: str, folder: Path) -> str:
    """The page with all its tables as the results are now; KeyError for a table that nothing knows."""
    return _BLOCK.sub(lambda block: f"{block[1]}\n{rendered(block['name'], folder)}\n\n{block[3]}", page)


def main() -> int:
    """Run from the command line."""
    argparse.ArgumentParser(
        description="Write the tables of docs/benchmarks.md and of other pages anew, from benchmarks/results/."
    ).parse_args()
    for page in PAGES:
        page.write_text(fill(page.read_text(encoding="utf-8"), results.FOLDER), encoding="utf-8")
        sys.stdout.write(f"{page.relative_to(REPOSITORY)} has the tables of {results.FOLDER.relative_to(REPOSITORY)}\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
