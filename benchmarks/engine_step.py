"""Where a denoising step's time goes: `python -m benchmarks.engine_step`.

Splits the processor time of a step into matrix products with weights, attention, the model's other work, work over the
vocabulary, and what is left: the engine and its Python. Beside it, in turns: the matrix products of the same step and
nothing else, with as many different weights, so that both fetch them from the same far memory. All figures are
processor time of one thread, so that other processes disturb them little; they still share the caches with them.
"""

import argparse
import os
import statistics
import sys
import time
from collections import defaultdict
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from unittest.mock import patch

import torch
from diffusion_worker.config import EngineConfig, EngineKind, SamplerConfig
from diffusion_worker.engine import diffusion as engine
from diffusion_worker.engine.admission import admit_request
from diffusion_worker.models import attention, layers
from diffusion_worker.models.checkpoint import open_checkpoint
from diffusion_worker.models.diffusion import DiffusionModel, load_diffusion_model
from diffusion_worker.samplers import categorical
from diffusion_worker.wire import GenerateRequest
from torch.nn import functional

from benchmarks import checkpoints, paths, results
from benchmarks.engine.products import Geometry, Product
from benchmarks.machine import Machine, versions
from benchmarks.measure import Tally

_PROMPT_TOKENS = 150  # longer than the sliding window, so that sliding layers do all the work they ever do
_STEPS = 1000  # no canvas ends while it is measured
_CORE = 1  # core 0 has the interrupts
_PARTS = ("products", "attention", "other_model", "vocabulary", "engine")


class Stopwatch:
    """Adds up processor time by name."""

    def __init__(self) -> None:
        self.seconds: dict[str, float] = defaultdict(float)

    def timed(self, name: str, function: Callable[..., Any]) -> Callable[..., Any]:
        """The function, whose time counts under a name."""

        def call(*args: Any, **kwargs: Any) -> Any:
            started = time.process_time()
            result = function(*args, **kwargs)
            self.seconds[name] += time.process_time() - started
            return result

        return call


@contextmanager
def watching(model: DiffusionModel) -> Iterator[Stopwatch]:
    """Time the parts of whatever runs inside. The clock itself costs a microsecond a call, most of all in `engine`."""
    watch = Stopwatch()
    with (
        patch.object(torch, "mm", watch.timed("products", torch.mm)),
        patch.object(layers, "grouped_mm", watch.timed("products", functional.grouped_mm)),
        patch.object(
            attention,
            "scaled_dot_product_attention",
            watch.timed("attention", functional.scaled_dot_product_attention),
        ),
        patch.object(model, "denoise", watch.timed("denoise", model.denoise)),
        patch.object(model, "soft_embedding", watch.timed("soft_embedding", model.soft_embedding)),
        patch.object(engine, "predict", watch.timed("vocabulary", categorical.predict)),
        patch.object(engine, "sample", watch.timed("vocabulary", categorical.sample)),
    ):
        yield watch


@dataclass(frozen=True)
class Products:
    """The matrix products of a step with operands of their own, ready to run."""

    operands: list[tuple[torch.Tensor, torch.Tensor, torch.Tensor]]
    operations: int

    @classmethod
    def of(cls, products: Sequence[Product]) -> "Products":
        """Each product of a list as often as it says; weights are different, as in a model."""
        return cls(
            operands=[_operands(product) for product in products for _ in range(product.count)],
            operations=sum(product.operations for product in products),
        )

    def run(self) -> None:
        """All of them, one after the other."""
        for left, right, out in self.operands:
            torch.matmul(left, right, out=out)


def _operands(product: Product) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    batch = () if product.batch == 1 else (product.batch,)
    m, k, n = product.m, product.k, product.n
    return torch.randn(*batch, m, k), torch.randn(*batch, k, n), torch.empty(*batch, m, n)


@torch.inference_mode()
def measure(model: DiffusionModel, geometry: Geometry, *, rows: int, runs: int) -> dict[str, Any]:
    """Milliseconds of a step with `rows` rows, by part, and of its matrix products alone."""
    runner = engine.DiffusionRunner(
        model, settings=SamplerConfig(max_denoising_steps=_STEPS, confidence_threshold=0.0), max_batch_size=rows
    )
    in_flight = []
    for number in range(rows):
        request = GenerateRequest(
            request_id=str(number),
            prompt_token_ids=[10 + number] * _PROMPT_TOKENS,
            max_tokens=model.canvas_length,
            seed=number,
        )
        row = admit_request(request, runner=runner, emit=lambda _: None)
        runner.admit(row)
        in_flight.append(row)
    products = Products.of(geometry.denoise(rows=rows, cached=_PROMPT_TOKENS))
    for _ in range(3):  # prompts into the cache; whatever is made once
        runner.step(in_flight)
        products.run()
    whole, bound = [], []
    parts: dict[str, list[float]] = defaultdict(list)
    for _ in range(runs):
        bound.append(_milliseconds(products.run))
        whole.append(_milliseconds(lambda: runner.step(in_flight)))
        for name, milliseconds in _split(model, lambda: runner.step(in_flight)).items():
            parts[name].append(milliseconds)
    return {
        "step_ms": Tally.of(whole),
        "products_alone_ms": Tally.of(bound),
        "share_of_bound": statistics.median(bound) / statistics.median(whole),
        "gigaflops_alone": products.operations / statistics.median(bound) / 1e6,
        "parts_ms": {name: statistics.median(parts[name]) for name in _PARTS},
    }


def _split(model: DiffusionModel, step: Callable[[], object]) -> dict[str, float]:
    with watching(model) as watch:
        whole = _milliseconds(step)
    spent = {name: 1000 * seconds for name, seconds in watch.seconds.items()}
    # The product of the soft embedding is counted among the products; the rest of that function is next to nothing.
    model_ms = spent["denoise"] + spent["soft_embedding"]
    return {
        "products": spent["products"],
        "attention": spent["attention"],
        "other_model": model_ms - spent["products"] - spent["attention"],
        "vocabulary": spent["vocabulary"],
        "engine": whole - model_ms - spent["vocabulary"],
    }


def _milliseconds(function: Callable[[], object]) -> float:
    started = time.process_time()
    function()
    return 1000 * (time.process_time() - started)


def _table(rows: dict[str, Any]) -> str:
    lines = [
        "| rows | step ms | " + " | ".join(name.replace("_", " ") for name in _PARTS) + " | products alone ms | share |"
    ]
    lines.append("|" + "---|" * (len(_PARTS) + 4))
    for count, each in rows.items():
        cells = [f"{each['parts_ms'][name]:.2f}" for name in _PARTS]
        lines.append(
            f"| {count} | {each['step_ms'].median:.2f} | {' | '.join(cells)} | "
            f"{each['products_alone_ms'].median:.2f} | {each['share_of_bound']:.0%} |"
        )
    return "\n".join(lines)


def main() -> int:
    """Measure, write benchmarks/results/engine_step.json, print the table."""
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.engine_step",
        description="Where a denoising step's time goes, on one core. See docs/benchmarks.md.",
        formatter_class=argparse.ArgumentDefaultsHelpFormatter,
    )
    parser.add_argument("--rows", type=int, nargs="+", default=[1, 8, 32], help="rows in a pass")
    parser.add_argument("--runs", type=int, default=15, help="measurements of each figure, in turns")
    parser.add_argument("--checkpoint", type=Path, default=None, help="a DiffusionGemma; none: the one of bench-peers")
    options = parser.parse_args()
    os.sched_setaffinity(0, {_CORE} & os.sched_getaffinity(0) or os.sched_getaffinity(0))
    torch.set_num_threads(1)
    if options.checkpoint is None:
        checkpoints.prepare()
    folder = options.checkpoint or paths.SAME_WORK_CHECKPOINT
    config = EngineConfig(
        kind=EngineKind.DIFFUSION, model=folder.name, revision="local", source=f"file://{folder}", path=str(folder)
    )
    model, geometry = load_diffusion_model(open_checkpoint(config)), Geometry.read(folder)
    rows = {str(count): measure(model, geometry, rows=count, runs=options.runs) for count in options.rows}
    content = {
        "rows": rows,
        "checkpoint": folder.name,
        "clock": "processor time of one thread",
        "load_average": os.getloadavg()[0],
        "machine": Machine.here(),
        "versions": versions(["torch", "transformers"]),
    }
    results.write(results.FOLDER / "engine_step.json", content)
    sys.stdout.write(_table(rows) + "\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
