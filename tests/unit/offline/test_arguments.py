"""Options of `diffusion-worker generate`, `batch` and `score`."""

from pathlib import Path

import pytest
from diffusion_worker.__main__ import EXIT_CONFIGURATION, main

COMMANDS = {
    "generate": ["--prompt", "x"],
    "batch": ["--input", "in.jsonl", "--output", "out.jsonl"],
    "score": ["--input", "in.jsonl", "--output", "out.jsonl"],
}
OPTIONS = {"--device": "cpu", "--threads": "2", "--kind": "ar"}


@pytest.mark.parametrize(
    ("command", "option"),
    [(command, option) for command in COMMANDS for option in OPTIONS if (command, option) != ("score", "--kind")],
)
def test_what_the_configuration_says_cannot_be_said_beside_it(
    command: str, option: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    code = main([command, "--config", str(tmp_path), *COMMANDS[command], option, OPTIONS[option]])
    assert code == EXIT_CONFIGURATION
    assert f"{option} and --config exclude each other" in capsys.readouterr().err
