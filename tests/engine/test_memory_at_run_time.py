"""A worker tries its largest step before it is ready; later, an allocation that fails ends one request and no more."""

import json
import subprocess
import sys
import time
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import pytest
import torch
from diffusion_worker.config import PlannedBytes
from diffusion_worker.engine import load_engine
from diffusion_worker.engine.load import load_runner
from diffusion_worker.engine.memory_check import measure_largest_step
from diffusion_worker.engine.memory_meter import MemoryMeter
from diffusion_worker.engine.memory_plan import RowMemory
from diffusion_worker.engine.row import Row
from diffusion_worker.models.ar import ARModel
from diffusion_worker.models.diffusion import DiffusionModel
from diffusion_worker.models.errors import MemoryBudgetError
from diffusion_worker.sizing import Arm, Device, Dtype, Workload, engine_costs

from tests.engine.answers import request, running, send
from tests.engine.conftest import config_of
from tests.engine.runners import WatchedRunner, ar_runner, diffusion_runner

GIB = 2**30


def test_the_meter_counts_what_is_held_at_most_and_not_what_came_before() -> None:
    before = torch.empty(1 << 20, dtype=torch.uint8)
    with MemoryMeter(torch.device("cpu")) as meter:
        for _ in range(3):
            first = torch.empty(3 << 20, dtype=torch.uint8)
            del first
        second = torch.empty(2 << 20, dtype=torch.uint8)
        del before, second
    assert meter.peak_bytes == 3 << 20


@pytest.mark.parametrize("folder", ["diffusion_folder", "llama_folder", "llada_folder"])
def test_a_worker_with_a_budget_runs_its_largest_step_before_it_is_ready(
    folder: str, request: pytest.FixtureRequest
) -> None:
    kind = "ar" if folder == "llama_folder" else "diffusion"
    settings = {"max_batch_size": 4, "max_sequence_length": 256}
    config = config_of(request.getfixturevalue(folder), kind, memory_budget=8 * GIB, **settings)
    engine = load_engine(config)
    try:
        assert engine.measured is not None
        found = engine.measured
        # A step of so small a model may fit into what malloc kept from loading it.
        assert min(found.weights, found.kv, found.reserve) > 0
        assert found.step >= 0
        assert engine.measured.total <= 8 * GIB
        assert engine.rows_in_flight == 0
        (answer,) = send(engine, request_of())
        assert answer.finish
    finally:
        engine.close(drain=False)


def request_of() -> object:
    return request("the fox", max_tokens=4)


def test_more_rows_take_more_at_the_largest_step(diffusion_folder: Path) -> None:
    runner = load_runner(config_of(diffusion_folder, "diffusion", max_batch_size=8))
    load = Workload(
        rows=2,
        tokens=runner.limits.max_sequence_length,
        canvas=16,
        guidance=False,
        dtype=Dtype.FLOAT32,
        gpus=1,
    )
    costs = engine_costs(Arm.DIFFUSION, Device.CPU)
    few, many = (
        measure_largest_step(runner, replace(load, rows=rows), costs, meter=MemoryMeter(runner.device))
        for rows in (2, 8)
    )
    assert 3 * few.kv < many.kv <= 4 * few.kv
    assert many.step > few.step
    assert many.weights == few.weights == runner.weight_bytes
    assert runner.cache_bytes == 0


def test_a_worker_that_takes_more_than_its_budget_refuses_to_start_with_the_numbers(diffusion_folder: Path) -> None:
    planned = PlannedBytes(weights=1 << 20, kv=1 << 20, step=8 << 20, reserve=1 << 20)
    config = config_of(diffusion_folder, "diffusion", memory_budget=16 << 20, planned=planned)
    with pytest.raises(MemoryBudgetError) as refused:
        load_engine(config)
    said = str(refused.value)
    assert "of a budget of 16.0: weights " in said
    assert "(planned 8.0)" in said
    assert "lower limits.maxBatchSize or limits.maxSequenceLength" in said


def test_the_row_that_came_last_ends_when_an_allocation_fails_and_the_others_go_on(
    diffusion_model: DiffusionModel,
) -> None:
    def refuse_three(rows: Sequence[Row]) -> None:
        if len(rows) > 2:
            raise torch.OutOfMemoryError("CUDA out of memory. Tried to allocate 2.00 GiB")

    runner = WatchedRunner(diffusion_runner(diffusion_model, max_batch_size=3), before_step=refuse_three)
    with running(runner, batch_window_seconds=0.2) as engine:
        first, second, third = send(engine, *(request(seed=seed) for seed in (1, 2, 3)))
        assert first.finish
        assert second.finish
        assert third.error.code == "out_of_memory"
        assert "3 requests at once" in third.error.message
        assert all(answer.finish for answer in send(engine, *(request(seed=seed) for seed in (4, 5, 6))))  # two at once
    assert runner.slots_taken == 0


def test_a_row_that_does_not_even_fit_alone_fails_alone(llama_model: ARModel) -> None:
    def refuse_long(rows: Sequence[Row]) -> None:
        if any(len(row.prompt_token_ids) > 50 for row in rows):
            raise RuntimeError("[enforce fail at alloc_cpu.cpp:118] . DefaultCPUAllocator: not enough memory")

    with running(WatchedRunner(ar_runner(llama_model), before_step=refuse_long)) as engine:
        (long,) = send(engine, request([3] * 60))
        assert long.error.code == "out_of_memory"
        assert send(engine, request(seed=1))[0].finish
        assert engine.alive


def test_a_process_without_memory_for_all_its_rows_answers_the_others_and_lives(diffusion_folder: Path) -> None:
    """A real limit of the kernel, and torch's own error."""
    done = subprocess.run(
        [sys.executable, "-m", "tests.engine.out_of_memory_child", str(diffusion_folder)],
        capture_output=True,
        text=True,
        check=False,
        timeout=300,
    )
    assert done.returncode == 0, done.stderr[-2000:]
    said = json.loads(done.stdout)
    first, second = said["ends"]
    assert said["alive"]
    assert sorted(first) == ["done", "done", "out_of_memory", "out_of_memory"]
    assert second == ["done"] * 4  # two at a time


class RowsOfTokens(RowMemory):
    """A memory of 100 tokens."""

    def fits(self, running: Sequence[Row], row: Row, *, now: float) -> bool:
        return not running or sum(len(each.prompt_token_ids) for each in (*running, row)) <= 100


def test_rows_wait_for_memory_in_order_and_the_submitter_is_told_that_there_is_no_room(llama_model: ARModel) -> None:
    started: list[str] = []
    seen: list[bool] = []

    def watch(rows: Sequence[Row]) -> None:
        started.extend(row.request_id for row in rows if row.request_id not in started)
        seen.append(engine.wait_for_room(0))

    runner = WatchedRunner(ar_runner(llama_model, max_batch_size=8), before_step=watch)
    with running(runner, memory=RowsOfTokens(max_rows=8), batch_window_seconds=0.2) as engine:
        lengths = {"a": 60, "b": 30, "long": 90, "short": 5}
        answers = send(engine, *(request([3] * n, request_id=name, max_tokens=3) for name, n in lengths.items()))
        assert all(answer.end for answer in answers)
        deadline = time.monotonic() + 60
        while not engine.wait_for_room(0.1):
            assert time.monotonic() < deadline
    assert started == ["a", "b", "long", "short"]
    assert seen[0] is False
    assert seen[-1] is True
