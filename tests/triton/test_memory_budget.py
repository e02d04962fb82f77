"""A worker says what it takes beside what was planned for it, and does not start when that is more than it may take."""

from pathlib import Path

from diffusion_worker.triton.launcher import EXIT_REFUSED

from tests.triton.worker import BUDGET, PLANNED, START_SECONDS, Worker, write_config

MIB = 2**20


def test_planned_and_measured_bytes_are_on_the_metrics_port(worker: Worker) -> None:
    planned = {part: worker.metric("dlm_planned_bytes", part=part) for part in (*PLANNED, "total")}
    assert planned == {**PLANNED, "total": sum(PLANNED.values())}
    measured = {part: worker.metric("dlm_measured_bytes", part=part) for part in (*PLANNED, "total")}
    assert min(measured["weights"], measured["kv"], measured["reserve"]) > 0
    assert measured["total"] == sum(measured[part] for part in PLANNED)
    assert measured["total"] <= BUDGET


def test_a_worker_over_its_budget_ends_with_a_code_of_its_own_and_the_numbers_in_its_log(
    checkpoint: Path, tmp_path: Path
) -> None:
    """Python and torch alone take more than 100 MiB."""
    config = write_config(tmp_path / "config", checkpoint=checkpoint, memory_budget=100 * MIB, planned=PLANNED)
    worker = Worker.start(config=config, folder=tmp_path)
    try:
        assert worker.wait_for_exit(START_SECONDS) == EXIT_REFUSED
    finally:
        worker.stop()
    (line,) = [line for line in worker.log.read_text().splitlines() if "the model cannot be served" in line]
    assert "MiB of a budget of 100.0: weights " in line
    assert "(planned 1,024.0)" in line
    assert "lower limits.maxBatchSize or limits.maxSequenceLength, or give more memory" in line
