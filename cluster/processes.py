"""Finds and ends the supervisor of a checkout's cluster.

It is recognised by its command line, not by a file with its number: that holds after a crash at any point, after
somebody removed the folder, and never names a process that merely got the same number later.
"""

import os
import signal
import sys
import time
from collections.abc import Sequence
from pathlib import Path

from cluster.errors import ClusterError
from cluster.paths import StateFolder

_KILL_SECONDS = 10.0


def supervisor_command(state: StateFolder) -> list[str]:
    return [sys.executable, "-m", "cluster.supervisor", str(state.root)]


def supervisors(state: StateFolder) -> list[int]:
    """Processes that supervise the cluster in `state`: none, one, or for a moment at its start two."""
    wanted = [part.encode() for part in supervisor_command(state)[1:]]
    found = []
    for folder in Path("/proc").iterdir():
        if not folder.name.isdigit():
            continue
        try:
            arguments = (folder / "cmdline").read_bytes().split(b"\0")
        except OSError:
            continue  # it ended while we looked
        if arguments[1:-1] == wanted:
            found.append(int(folder.name))
    return sorted(found)


def end(pids: Sequence[int], state: StateFolder, *, grace_seconds: float) -> None:
    """Ask processes to end, kill those that have not after `grace_seconds`, and wait until they are gone."""
    for number, seconds in ((signal.SIGTERM, grace_seconds), (signal.SIGKILL, _KILL_SECONDS)):
        for pid in set(pids) & set(supervisors(state)):
            _signal(pid, number)
        deadline = time.monotonic() + seconds
        while left := set(pids) & set(supervisors(state)):
            if time.monotonic() > deadline:
                break
            time.sleep(0.05)
        if not left:
            return
    raise ClusterError(f"process {left} does not end, not even by SIGKILL: look at its state in /proc/PID/status")


def _signal(pid: int, number: signal.Signals) -> None:
    try:
        os.kill(pid, number)
    except ProcessLookupError:
        return  # it ended in between
