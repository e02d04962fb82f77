"""What is planned for a step is what it takes: the guard of `benchmarks.sizing`, whose grid is larger."""

from pathlib import Path

import pytest
from diffusion_worker.engine.load import load_runner
from diffusion_worker.engine.memory_check import measure_largest_step
from diffusion_worker.engine.memory_meter import MemoryMeter
from diffusion_worker.inspect.folder import inspect_folder
from diffusion_worker.sizing import Arm, Device, Dtype, Workload, engine_costs, footprint

from tests.engine.conftest import config_of

TOLERANCE = 0.1


@pytest.mark.parametrize(
    ("folder", "canvas"), [("diffusion_folder", 16), ("llada_folder", 32), ("llama_folder", 1)], ids=str
)
@pytest.mark.parametrize("rows", [1, 12])
def test_the_plan_is_within_a_tenth_of_the_allocator_s_peak(
    folder: str, canvas: int, rows: int, request: pytest.FixtureRequest
) -> None:
    path: Path = request.getfixturevalue(folder)
    arm = Arm.AR if canvas == 1 else Arm.DIFFUSION
    facts = inspect_folder(path)
    costs = engine_costs(arm, Device.CPU, facts.family)
    load = Workload(rows=rows, tokens=192, canvas=canvas, guidance=False, dtype=Dtype.FLOAT32, gpus=1)
    planned = footprint(facts, load, costs)
    runner = load_runner(config_of(path, arm.value, max_batch_size=rows))
    found = measure_largest_step(runner, load, costs, meter=MemoryMeter(runner.device))
    assert planned.kv + planned.step == pytest.approx(found.kv + found.step, rel=TOLERANCE)
