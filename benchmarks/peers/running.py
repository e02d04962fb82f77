"""Competitors that run side by side, and end together whatever happens."""

import contextlib
import os
from collections.abc import Callable, Iterator, Mapping
from typing import TypeVar

from benchmarks.peers.placement import Placement
from benchmarks.peers.work import Contestant
from benchmarks.progress import say

C = TypeVar("C", bound=Contestant)


@contextlib.contextmanager
def running(start: Mapping[str, Callable[[], C]], *, placement: Placement) -> Iterator[dict[str, C]]:
    """Start all of them one after the other; this process, which is the load client, moves to the client's cores meanwhile."""
    before = os.sched_getaffinity(0)
    os.sched_setaffinity(0, placement.client_cpus)
    started: dict[str, C] = {}
    try:
        for name, begin in start.items():
            say(f"starting {name}")
            started[name] = begin()
        yield started
    finally:
        for contestant in started.values():
            contestant.stop()
        os.sched_setaffinity(0, before)
