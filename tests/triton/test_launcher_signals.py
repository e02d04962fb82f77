"""SIGTERM reaches the launcher wherever the kernel delivers it. A script plays Triton."""

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

PROGRAM = """
import sys, threading, time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from diffusion_worker.triton import launcher
from diffusion_worker.triton.installation import Triton

folder, download = Path(sys.argv[1]), sys.argv[2]

def resolve(config, *, cache):
    if download == "running":
        (folder / "downloading").touch()
        with ThreadPoolExecutor() as pool:
            list(pool.map(time.sleep, [600, 600]))  # as the hub's client does
    # As tqdm and hf_xet do: a thread that stays, and does not block signals.
    threading.Thread(target=time.sleep, args=(600,), daemon=True).start()
    return config

def look(pid):
    (folder / "looking").touch()
    time.sleep(2)  # the signal comes now: the main thread has it blocked and does not wait for it
    return []

launcher.resolve_source = resolve
launcher.children_of = look
launcher.find_triton = lambda: Triton(server=folder / "triton", python_backend=(), library_folders=())
sys.exit(launcher.serve(launcher.ServeOptions(config=folder, repository=folder / "run", cache=folder)))
"""
TRITON = """#!/bin/bash
trap 'echo drained > {folder}/drained; exit 0' TERM
echo $$ > {folder}/started
while :; do sleep 0.1; done
"""

StartLauncher = Callable[..., subprocess.Popen[bytes]]


@pytest.fixture
def start(tmp_path: Path) -> Iterator[StartLauncher]:
    started: list[subprocess.Popen[bytes]] = []

    def start_launcher(*, download: str, until: str) -> subprocess.Popen[bytes]:
        model = {"kind": "ar", "model": "m", "revision": "0", "source": "file:///x", "path": "/x"}
        (tmp_path / "model.json").write_text(json.dumps(model))
        (tmp_path / "config.pbtxt").touch()
        (tmp_path / "triton").write_text(TRITON.format(folder=tmp_path))
        (tmp_path / "triton").chmod(0o755)
        started.append(subprocess.Popen([sys.executable, "-c", PROGRAM, str(tmp_path), download]))
        deadline = time.monotonic() + 120
        while not (tmp_path / until).exists():
            assert time.monotonic() < deadline, "the launcher did not come so far"
            time.sleep(0.05)
        return started[0]

    yield start_launcher
    for process in started:
        process.kill()
        process.wait()
    if (tmp_path / "started").exists() and not (tmp_path / "drained").exists():
        os.kill(int((tmp_path / "started").read_text()), signal.SIGKILL)


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_thread_that_a_download_left_behind_does_not_keep_triton_from_draining(
    start: StartLauncher, tmp_path: Path, number: signal.Signals
) -> None:
    launcher = start(download="done", until="looking")
    launcher.send_signal(number)
    assert launcher.wait(60) == 0
    assert (tmp_path / "drained").exists()


def test_sigterm_ends_a_download_at_once(start: StartLauncher) -> None:
    launcher = start(download="running", until="downloading")
    launcher.send_signal(signal.SIGTERM)
    assert launcher.wait(60) == 128 + signal.SIGTERM
