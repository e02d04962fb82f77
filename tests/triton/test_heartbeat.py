"""The engine's ticks, from the backend to the launcher."""

import time
from pathlib import Path
from typing import Any

from diffusion_worker.engine import EngineStats
from diffusion_worker.triton.heartbeat import Heartbeat, read_tick


class QuietEngine:
    alive = True
    stats = EngineStats(rows_in_flight=0, rows_waiting=0, consecutive_failed_passes=0, seconds_since_tick=0.0)


def test_a_heartbeat_that_cannot_be_written_for_a_while_goes_on_later(tmp_path: Path) -> None:
    engine: Any = QuietEngine()
    path = tmp_path / "not there yet" / "heartbeat"
    heartbeat = Heartbeat(engine, path)
    try:
        assert read_tick(path) is None
        path.parent.mkdir()
        deadline = time.monotonic() + 60
        while read_tick(path) is None:
            assert time.monotonic() < deadline, "the heartbeat has stopped"
            time.sleep(0.05)
    finally:
        heartbeat.stop()
