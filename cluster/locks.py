"""File locks, so that two terminals or two checkouts do not do the same work at once."""

import fcntl
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from cluster.progress import say


@contextmanager
def exclusive(path: Path, *, purpose: str) -> Iterator[None]:
    """Hold the lock on `path` (a folder, or a file that is made), waiting for whoever holds it.

    The kernel lets go of it when the holder dies, however it dies.
    """
    if not path.is_dir():
        path.parent.mkdir(parents=True, exist_ok=True)
        path.touch()
    descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    try:
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            say(f"waiting for another process that is about to {purpose}")
            fcntl.flock(descriptor, fcntl.LOCK_EX)
        yield
    finally:
        os.close(descriptor)
