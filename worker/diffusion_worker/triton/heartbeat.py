"""The engine's last tick, in a file: from the backend inside Triton's stub to the launcher outside.

Times are of the monotonic clock, which all processes of a machine share and nobody can set.
"""

import logging
import os
import threading
import time
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:  # the launcher reads ticks and has no use for torch
    from diffusion_worker.engine import Engine

VARIABLE = "DIFFUSION_WORKER_HEARTBEAT"  # names the file to the backend
_BEAT_SECONDS = 1.0
_FAILED_PASSES = 16  # in a row: the device is broken (a CUDA fault stays for the life of the process)

_log = logging.getLogger(__name__)


def read_tick(path: Path) -> float | None:
    """The last tick, or None while there is none."""
    try:
        return float(path.read_text())
    except (FileNotFoundError, ValueError):  # not loaded yet, or caught while it was written
        return None


class Heartbeat:
    """Writes the ticks of an engine that works, and ends this process when the engine cannot work any more."""

    def __init__(self, engine: "Engine", path: Path | None) -> None:
        self._engine = engine
        self._path = path
        self._stopped = threading.Event()
        self._beat()
        self._thread = threading.Thread(target=self._run, name="heartbeat", daemon=True)
        self._thread.start()

    def stop(self) -> None:
        """Before the engine is closed on purpose."""
        self._stopped.set()
        self._thread.join()

    def _run(self) -> None:
        while not self._stopped.wait(_BEAT_SECONDS):
            self._beat()

    def _beat(self) -> None:
        stats = self._engine.stats
        if not self._engine.alive or stats.consecutive_failed_passes >= _FAILED_PASSES:
            _log.critical("the engine is broken (%s): ending this process so that the pod starts anew", stats)
            time.sleep(1.0)  # the rows' error events are on their way
            os._exit(70)
        if self._path is not None:
            try:
                self._path.write_text(repr(time.monotonic() - stats.seconds_since_tick))
            except OSError as error:  # a full disk says nothing about the engine, and this thread must live on
                _log.warning("cannot write the heartbeat: %s", error)
