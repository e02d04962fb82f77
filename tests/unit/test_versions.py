"""What is asked of a program first when something is reported."""

from collections.abc import Callable
from importlib.metadata import version

import pytest
from diffusion_gateway.__main__ import main as gateway
from diffusion_operator.shell.cli import main as operator
from diffusion_worker.__main__ import main as worker


@pytest.mark.parametrize("program", [operator, gateway, worker], ids=["operator", "gateway", "worker"])
def test_each_program_tells_its_version(
    program: Callable[[list[str]], int], capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit) as ended:
        program(["--version"])
    assert ended.value.code == 0
    assert capsys.readouterr().out == f"{version('diffusion-operator')}\n"
