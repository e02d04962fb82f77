"""docs/reference/events.md has every event that is no condition's reason."""

import ast
import re
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).parents[3]
ROWS = re.findall(r"^\| (`.+?) \|", (ROOT / "docs" / "reference" / "events.md").read_text(), re.MULTILINE)
DOCUMENTED = {name for row in ROWS for name in re.findall(r"`(\w+)`", row)}


def constants(node: ast.AST) -> set[str]:
    return {found.value for found in ast.walk(node) if isinstance(found, ast.Constant) and isinstance(found.value, str)}


def reasons(function: ast.AST) -> Iterator[str]:
    """First arguments of the events that a function makes: written there, or chosen above."""
    for call in ast.walk(function):
        if isinstance(call, ast.Call) and isinstance(call.func, ast.Name) and call.func.id in {"Event", "RolloutEvent"}:
            match call.args[0]:
                case ast.Constant(value=str() as reason):
                    yield reason
                case ast.Name(id=name):
                    for node in ast.walk(function):
                        if isinstance(node, ast.Assign) and any(ast.unparse(to) == name for to in node.targets):
                            assert isinstance(node.value, ast.IfExp)
                            yield from constants(node.value.body) | constants(node.value.orelse)
                case _:
                    pass  # a condition's reason, or an event that is handed on


WRITTEN = {
    reason
    for path in (ROOT / "operator" / "diffusion_operator" / "core").rglob("*.py")
    for function in ast.walk(ast.parse(path.read_text()))
    if isinstance(function, ast.FunctionDef)
    for reason in reasons(function)
}


def test_events_are_found() -> None:
    assert {"StepUp", "RolloutResumed", "CommandRefused", "MemoryDiffers"} <= WRITTEN


def test_the_page_has_every_event_and_no_other() -> None:
    assert DOCUMENTED == WRITTEN
