"""What would break quietly if nobody looked."""

import ast
import subprocess
import sys
from pathlib import Path
from unittest.mock import create_autospec

import kopf
import pytest
from diffusion_operator.adapters.known_objects import KnownObjects
from diffusion_operator.shell import handlers
from diffusion_operator.shell.crashes import CrashLog
from diffusion_operator.shell.loops import Loops

REPOSITORY = Path(__file__).parents[3]
OPERATOR = REPOSITORY / "operator" / "diffusion_operator"


def test_the_folder_operator_is_no_package() -> None:
    """It would shadow the standard library's `operator` for every Python that starts in the repository."""
    assert not (REPOSITORY / "operator" / "__init__.py").exists()


def handler_functions() -> list[ast.AsyncFunctionDef]:
    tree = ast.parse((OPERATOR / "shell" / "handlers.py").read_text())
    return [node for node in ast.walk(tree) if isinstance(node, ast.AsyncFunctionDef)]


def test_no_handler_takes_patch_or_returns_a_value() -> None:
    """kopf would write it into the resource, and a handler whose write fails is never called again."""
    assert len(handler_functions()) == 3
    for function in handler_functions():
        arguments = {argument.arg for argument in (*function.args.args, *function.args.kwonlyargs)}
        assert "patch" not in arguments, function.name
        returns = [node for node in ast.walk(function) if isinstance(node, ast.Return) and node.value is not None]
        assert returns == [], function.name


def test_only_event_handlers_are_registered() -> None:
    """Daemons, timers and change handlers leave finalizers or annotations on the resource."""
    registry = kopf.OperatorRegistry()
    handlers.register(registry, create_autospec(Loops), CrashLog(), KnownObjects())
    assert len(registry._watching.get_all_handlers()) == 6
    assert registry._spawning.get_all_handlers() == []
    assert registry._changing.get_all_handlers() == []


def test_children_and_pods_are_filtered_by_the_api_server() -> None:
    """Otherwise every ConfigMap and pod of the cluster would pass through the operator's memory."""
    selectors = handlers.settings().watching.label_selectors
    text = str(selectors)
    assert text.count("app.kubernetes.io/managed-by=diffusion-operator") == 5


@pytest.mark.parametrize("module", ["diffusion_operator.shell.process", "diffusion_operator.api.crd"])
def test_the_operator_runs_without_torch_and_tritonclient(module: str) -> None:
    code = f"import sys, {module}; sys.exit(any(n in sys.modules for n in ('torch', 'transformers', 'tritonclient')))"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0


def test_importing_the_command_line_is_quick() -> None:
    code = "import sys, diffusion_operator.shell.cli; sys.exit('kopf' in sys.modules or 'kubernetes' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0
