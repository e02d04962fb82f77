"""A worker that takes more memory than it may says so where Kubernetes shows it; other faults are in its log alone."""

from pathlib import Path

import pytest
from diffusion_worker.models.errors import CheckpointError, MemoryBudgetError, UnsupportedCheckpointError
from diffusion_worker.triton import refusal


def raised(error: CheckpointError) -> None:
    with pytest.raises(type(error)), refusal.left_behind():
        raise error


def test_only_a_refusal_for_memory_is_left_behind(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file = tmp_path / "refusal"
    monkeypatch.setenv(refusal.VARIABLE, str(file))
    raised(UnsupportedCheckpointError("pickled"))
    assert refusal.read(file) is None
    raised(MemoryBudgetError("the largest step takes 20 MiB of 16"))
    assert refusal.read(file) == "the largest step takes 20 MiB of 16"


def test_the_reason_becomes_the_termination_message(tmp_path: Path) -> None:
    log = tmp_path / "termination-log"
    refusal.tell_kubernetes("no such file outside a container", termination_log=log)
    assert not log.exists()
    log.touch()
    refusal.tell_kubernetes("x" * 5000, termination_log=log)
    assert log.read_text() == "x" * 4096  # what Kubernetes keeps
