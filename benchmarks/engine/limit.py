"""How far a pass is from the hardware: the engine beside the matrix products that it cannot do without, in the same run.

And what Python costs: a step of a model of as many layers in which there is next to nothing to compute.
"""

import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from diffusion_worker.engine import Engine

from benchmarks import paths
from benchmarks.engine import gemm, scaling
from benchmarks.engine.drive import Recorder, open_engine
from benchmarks.engine.products import Geometry, Product
from benchmarks.engine_step import Products
from benchmarks.load import Load, LoadGuard
from benchmarks.make_checkpoint import CANVAS, STEPS
from benchmarks.measure import Tally
from benchmarks.progress import say

ROWS = (1, 8)
TOKENS = 256
_TIMINGS = 5
_PROMPT_TOKENS = 20  # about; only the attention's products depend on it


@dataclass(frozen=True)
class Sample:
    """The same work by the engine and by matrix products alone; all in seconds."""

    engine: float
    engine_cpu: float
    products: float  # operands in the processor's cache
    products_from_memory: float  # each product of a step with operands of its own, as if nothing were in the cache
    products_with_weights: float  # without those of attention, which have no weights
    loop: float  # per step, outside of the passes: batching, text, events
    empty_step: float  # a denoising step with next to nothing to compute: Python and torch's dispatch

    @property
    def share(self) -> float:
        """Of the engine's time that the products need at least."""
        return self.products / self.engine


def work(geometry: Geometry, *, rows: int) -> list[Product]:
    """The products of all passes of `rows` answers of TOKENS tokens."""
    products = geometry.encode(rows=rows, new=_PROMPT_TOKENS, cached=0)
    for canvas in range(TOKENS // CANVAS):
        cached = _PROMPT_TOKENS + canvas * CANVAS
        products += geometry.denoise(rows=rows, cached=cached, is_first=True)
        products += geometry.denoise(rows=rows, cached=cached) * (STEPS - 2)
        products += geometry.denoise(rows=rows, cached=cached, is_last=True)
        if canvas > 0:  # the last canvas is not written into the cache
            products += geometry.encode(rows=rows, new=CANVAS, cached=cached - CANVAS)
    return products


def measure(*, runs: int, quick: bool, guard: LoadGuard) -> dict[str, Any]:
    """By rows: the share of the time that the products need, and what else a step costs."""
    runs = 1 if quick else runs
    geometry = Geometry.read(paths.SAME_WORK_CHECKPOINT)
    load: list[Load] = []
    return {
        "rows": {
            str(rows): _measure(rows, work(geometry, rows=rows), runs=runs, guard=guard, load=load) for rows in ROWS
        },
        "tokens": TOKENS,
        "load": load,
    }


def _measure(rows: int, products: list[Product], *, runs: int, guard: LoadGuard, load: list[Load]) -> dict[str, Any]:
    with _engine(paths.SAME_WORK_CHECKPOINT, rows) as full, _engine(paths.EMPTY_CHECKPOINT, rows) as empty:
        samples = []
        for _ in range(runs):
            measured = guard.run(f"limit, {rows} rows", lambda: _sample(full, empty, products, rows=rows))
            samples.append(measured.result)
            load.append(measured.load)
            say(f"limit, {rows} rows: products are {measured.result.share:.0%} of the engine's time ({measured.load})")
    operations = sum(product.operations for product in products)
    return {
        "engine_seconds": Tally.of([sample.engine for sample in samples]),
        "products_seconds": Tally.of([sample.products for sample in samples]),
        "share": Tally.of([sample.share for sample in samples]),
        "share_from_memory": Tally.of([sample.products_from_memory / sample.engine for sample in samples]),
        "share_of_cpu_time": Tally.of([sample.products / sample.engine_cpu for sample in samples]),
        "share_with_weights": Tally.of([sample.products_with_weights / sample.engine for sample in samples]),
        "gigaflops": Tally.of([operations / sample.products / 1e9 for sample in samples]),
        "loop_seconds": Tally.of([sample.loop for sample in samples]),
        "empty_step_seconds": Tally.of([sample.empty_step for sample in samples]),
    }


@dataclass(frozen=True)
class _Recorded:
    engine: Engine
    recorder: Recorder


@contextmanager
def _engine(checkpoint: Path, rows: int) -> Iterator[_Recorded]:
    recorder = Recorder()
    engine = open_engine(checkpoint, rows=rows, recorder=recorder)
    try:
        scaling.run(engine, recorder, rows=rows, tokens=CANVAS)  # the first passes allocate
        yield _Recorded(engine, recorder)
    finally:
        engine.close(drain=False)


def _sample(full: _Recorded, empty: _Recorded, products: list[Product], *, rows: int) -> Sample:
    """Products before and after the engine: the better of them is the bound, so a slow moment makes it no easier."""
    step = Geometry.read(paths.SAME_WORK_CHECKPOINT).denoise(rows=rows, cached=_PROMPT_TOKENS + TOKENS // 2)
    before = gemm.time_shapes([*products, *step])
    started = time.process_time()
    done = scaling.run(full.engine, full.recorder, rows=rows, tokens=TOKENS)
    engine_cpu = time.process_time() - started
    after = gemm.time_shapes([*products, *step])
    timed = {shape: min(before[shape], after[shape]) for shape in before}
    steps = TOKENS // CANVAS * STEPS
    from_memory = _seconds_from_memory(Products.of(step)) - gemm.seconds(step, timed)  # more, for each step
    return Sample(
        engine=rows * TOKENS / done.tokens_per_second,
        engine_cpu=engine_cpu,
        products=gemm.seconds(products, timed),
        products_from_memory=gemm.seconds(products, timed) + steps * from_memory,
        products_with_weights=gemm.seconds([product for product in products if product.batch == 1], timed),
        loop=done.loop_seconds,
        empty_step=scaling.run(empty.engine, empty.recorder, rows=rows, tokens=CANVAS).step_seconds,
    )


@torch.inference_mode()
def _seconds_from_memory(products: Products) -> float:
    times = []
    for _ in range(_TIMINGS):
        started = time.thread_time()
        products.run()
        times.append(time.thread_time() - started)
    return min(times)
