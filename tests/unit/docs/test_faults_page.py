"""Each row of docs/faults.md is a test that exists."""

import ast
import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[3]
ROWS = re.findall(r"^\| (?!what fails)(.+) \|$", (ROOT / "docs" / "faults.md").read_text(), re.MULTILINE)
TESTS = {
    f"{path.name}::{node.name}"
    for folder in ("e2e", "long")
    for path in (ROOT / "tests" / folder).glob("test_*.py")
    for node in ast.parse(path.read_text()).body
    if isinstance(node, ast.FunctionDef)
}


def test_there_are_rows() -> None:
    assert len(ROWS) > 10


@pytest.mark.parametrize("row", ROWS, ids=lambda row: row.partition(" |")[0])
def test_a_row_names_tests_that_exist(row: str) -> None:
    named = set(re.findall(r"`(test_\w+\.py::test_\w+)`", row.rpartition(" | ")[2]))
    assert named
    assert named <= TESTS
