"""A tiny checkpoint and a worker that serves it."""

import json
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests.engine.checkpoints import save_diffusion
from tests.triton.worker import BUDGET, PLANNED, Worker, write_config


@pytest.fixture(scope="session")
def checkpoint(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A random DiffusionGemma that never ends by itself: its answers are as long as they are asked to be."""
    folder = tmp_path_factory.mktemp("checkpoint")
    save_diffusion(folder)
    for name in ("config.json", "generation_config.json"):
        settings = json.loads((folder / name).read_text())
        for part in (settings, settings.get("text_config", {})):
            if "eos_token_id" in part:
                part["eos_token_id"] = None
        (folder / name).write_text(json.dumps(settings))
    return folder


@pytest.fixture(scope="session")
def worker(checkpoint: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Worker]:
    """One worker for all tests that leave it as it was."""
    folder = tmp_path_factory.mktemp("worker")
    config = write_config(folder / "config", checkpoint=checkpoint, memory_budget=BUDGET, planned=PLANNED)
    worker = Worker.start(config=config, folder=folder)
    try:
        worker.wait_until_ready()
        yield worker
    finally:
        worker.stop()


@pytest.fixture
def start_worker(checkpoint: Path, tmp_path: Path) -> Iterator[Callable[..., Worker]]:
    """Starts a worker that the test may break."""
    started: list[Worker] = []

    def start(**flags: object) -> Worker:
        worker = Worker.start(config=write_config(tmp_path / "config", checkpoint=checkpoint), folder=tmp_path, **flags)
        started.append(worker)
        worker.wait_until_ready()
        return worker

    yield start
    for worker in started:
        worker.stop()
