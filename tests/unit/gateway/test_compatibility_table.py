"""The table in docs/api.md says what is tested, and with which clients."""

import ast
import re
from pathlib import Path

ROOT = Path(__file__).resolve().parents[3]
PAGE = (ROOT / "docs" / "api.md").read_text()
ROW = re.compile(r"^\| .+ \| (.) \| (.) \| (.) \| `(test_compatibility_\w+\.py)::(test_\w+)` \|$", re.MULTILINE)


def promised() -> dict[str, tuple[str, str, str]]:
    """For each test the marks of Python, Node and curl."""
    return {f"{file}::{test}": (python, node, curl) for python, node, curl, file, test in ROW.findall(PAGE)}


def existing() -> dict[str, tuple[str, str, str]]:
    """The same, from the tests: with the fixture `client` all clients run, otherwise the official ones."""
    found = {}
    for path in sorted((ROOT / "tests" / "gateway").glob("test_compatibility_*.py")):
        for node in ast.parse(path.read_text()).body:
            if isinstance(node, ast.AsyncFunctionDef) and node.name.startswith("test_"):
                everybody = "client" in {argument.arg for argument in node.args.args}
                found[f"{path.name}::{node.name}"] = ("✓", "✓", "✓" if everybody else "–")
    return found


def test_every_row_is_a_test_and_every_test_a_row() -> None:
    assert promised() == existing()
