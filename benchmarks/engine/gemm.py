"""The products of a pass, and nothing else, at the speed at which this machine does them."""

import time
from collections.abc import Iterable, Mapping

import torch

from benchmarks.engine.products import Product

_LEAST_SECONDS = 0.02  # of one timing, so that the clock and a single interruption do not matter
_TIMINGS = 3


def seconds(products: Iterable[Product], timed: Mapping[Product, float]) -> float:
    """Of all products, from the time of each of their shapes."""
    return sum(timed[product.shape] * product.count for product in products)


@torch.inference_mode()
def time_shapes(products: Iterable[Product]) -> dict[Product, float]:
    """Seconds of each shape that occurs, the best of some timings and of both ways in which a weight can lie in memory."""
    return {
        shape: min(_time(shape, transposed) for transposed in (False, True))
        for shape in sorted({p.shape for p in products}, key=str)
    }


def _time(shape: Product, transposed: bool) -> float:
    left = torch.randn(shape.batch, shape.m, shape.k)
    right = torch.randn(shape.batch, shape.n, shape.k).mT if transposed else torch.randn(shape.batch, shape.k, shape.n)
    out = torch.empty(shape.batch, shape.m, shape.n)
    if shape.batch == 1:
        left, right, out = left[0], right[0], out[0]
    torch.matmul(left, right, out=out)
    best = float("inf")
    for _ in range(_TIMINGS):
        times, started = 0, time.thread_time()  # on one thread: what others take away makes the bound no easier
        while (taken := time.thread_time() - started) < _LEAST_SECONDS:
            torch.matmul(left, right, out=out)
            times += 1
        best = min(best, taken / times)
    return best
