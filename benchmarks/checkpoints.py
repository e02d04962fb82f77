"""The random checkpoints that the benchmarks run, made once."""

import shutil
import sys

from benchmarks import paths
from benchmarks.commands import run_to_end
from benchmarks.progress import say

_LAST_FILE = "complete"


def prepare() -> None:
    """Make those that are missing. In a process of its own: torch is not for the process that measures others."""
    for folder, flags in ((paths.SAME_WORK_CHECKPOINT, []), (paths.EMPTY_CHECKPOINT, ["--empty"])):
        if not (folder / _LAST_FILE).exists():
            say(f"making the checkpoint {folder.name}")
            shutil.rmtree(folder, ignore_errors=True)
            run_to_end(sys.executable, "-m", "benchmarks.make_checkpoint", str(folder), *flags)
            (folder / _LAST_FILE).touch()
