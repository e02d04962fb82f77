"""Commands that are not measured: they prepare what is."""

import subprocess
from pathlib import Path

from benchmarks.errors import BenchmarkError


def run_to_end(*command: str) -> str:
    """What a command that is not measured prints; BenchmarkError when it fails."""
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode != 0:
        shown = " ".join([Path(command[0]).name, *command[1:]])
        raise BenchmarkError(f"`{shown}` ended with {done.returncode}:\n{done.stderr.strip()[-2000:]}")
    return done.stdout
