"""Finds and ends the supervisor of a checkout's cluster.

It is recognised by its command line, not by a file with its number: that holds after a crash at any point, after
somebody removed the folder, and never names a process that merely got the same number later.
"""

import contextlib
import os
import select
import signal
import sys
import time
from collections.abc import Sequence
from pathlib import Path

from cluster.errors import ClusterError
from cluster.paths import StateFolder

_ARGUMENTS = ["-m", "cluster.supervisor"]
_KILL_SECONDS = 10.0


def supervisor_command(state: StateFolder) -> list[str]:
    """Command line of the supervisor of the cluster in `state`."""
    return [sys.executable, *_ARGUMENTS, str(state.root)]


def all_supervisors() -> dict[int, Path]:
    """Process id and state folder of every cluster on this machine, whichever checkout it belongs to."""
    found = {}
    for folder in Path("/proc").iterdir():
        if not folder.name.isdigit():
            continue
        try:
            arguments = (folder / "cmdline").read_bytes().decode(errors="replace").split("\0")
        except OSError:
            continue  # it ended while we looked
        # A process that has ended but was not waited for has no arguments any more.
        if arguments[1:3] == _ARGUMENTS and len(arguments) == len(_ARGUMENTS) + 3:
            found[int(folder.name)] = Path(arguments[3])
    return found


def supervisors(state: StateFolder) -> list[int]:
    """Processes that supervise the cluster in `state`: none, one, or for a moment at its start two."""
    return sorted(pid for pid, folder in all_supervisors().items() if folder == state.root)


def end(pids: Sequence[int], state: StateFolder, *, grace_seconds: float) -> None:
    """Ask processes to end, kill those that have not after `grace_seconds`, and wait until they are gone.

    Process 1 of a PID namespace is gone only after all others in there are.
    """
    handles = {pid: handle for pid in pids if (handle := _open(pid)) is not None}
    try:
        # Looked up again: between our finding a number and our holding it, it may have passed to another process.
        left = {pid: handle for pid, handle in handles.items() if pid in supervisors(state)}
        for number, seconds in ((signal.SIGTERM, grace_seconds), (signal.SIGKILL, _KILL_SECONDS)):
            for handle in left.values():
                _signal(handle, number)
            left = _wait(left, seconds)
        if left:
            raise ClusterError(f"process {min(left)} does not end, not even by SIGKILL: see /proc/{min(left)}/status")
    finally:
        for handle in handles.values():
            os.close(handle)


def _open(pid: int) -> int | None:
    try:
        return os.pidfd_open(pid)
    except ProcessLookupError:
        return None


def _signal(handle: int, number: signal.Signals) -> None:
    with contextlib.suppress(ProcessLookupError):
        signal.pidfd_send_signal(handle, number)


def _wait(handles: dict[int, int], seconds: float) -> dict[int, int]:
    """Those of `handles`, by process id, that have not ended within `seconds`."""
    left = dict(handles)
    deadline = time.monotonic() + seconds
    while left and (remaining := deadline - time.monotonic()) > 0:
        ended, _, _ = select.select(list(left.values()), [], [], remaining)
        left = {pid: handle for pid, handle in left.items() if handle not in ended}
    return left
