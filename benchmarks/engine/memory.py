"""Memory: what a request needs at its peak, and what its keys and values take beside those of an autoregressive model of the same size."""

import json
import os
import subprocess
import sys
from dataclasses import dataclass
from typing import Any

from diffusion_worker.config import EngineConfig, EngineKind
from diffusion_worker.models.checkpoint import open_checkpoint
from diffusion_worker.models.diffusion import load_diffusion_model

from benchmarks import paths
from benchmarks.errors import BenchmarkError
from benchmarks.make_checkpoint import CANVAS
from benchmarks.progress import say

_ROWS, _TOKENS = 4, 256
_GIVE_BACK_AT_ONCE = {"MALLOC_MMAP_THRESHOLD_": "65536", "MALLOC_TRIM_THRESHOLD_": "65536", "MALLOC_TOP_PAD_": "0"}
_LENGTHS = (128, 256, 512, 1024, 2048)
_FLOAT_BYTES = 4


@dataclass(frozen=True)
class Case:
    """Requests that are answered at once."""

    rows: int
    prompt: int
    tokens: int

    @property
    def blocks(self) -> int:
        """Canvases of each answer."""
        return -(-self.tokens // CANVAS)


def cases(*, quick: bool) -> dict[str, list[Case]]:
    """Each list varies one thing: rows; length, prompt and answer alike; blocks at the same length."""
    rows = (1, 2, 4, 8) if quick else (1, 2, 4, 8, 16, 32)
    lengths = (128, 256, 512) if quick else (128, 256, 512, 1024, 2048)
    blocks = (1, 2, 4, 7) if quick else (1, 2, 4, 8, 15)
    total = (max(blocks) + 1) * CANVAS
    return {
        "rows": [Case(rows=n, prompt=CANVAS, tokens=_TOKENS) for n in rows],
        "length": [Case(rows=_ROWS, prompt=n // 2, tokens=n // 2) for n in lengths],
        "blocks": [Case(rows=_ROWS, prompt=total - n * CANVAS, tokens=n * CANVAS) for n in blocks],
    }


def measure(*, quick: bool) -> dict[str, Any]:
    """Bytes of each case, and of the caches at some lengths."""
    wanted = cases(quick=quick)
    measured = iter(_peaks([case for listed in wanted.values() for case in listed]))
    peaks = {
        name: [
            {"rows": c.rows, "prompt": c.prompt, "tokens": c.tokens, "blocks": c.blocks, "bytes": next(measured)}
            for c in listed
        ]
        for name, listed in wanted.items()
    }
    return {"peak": peaks, "cache": cache_bytes()}


def cache_bytes() -> list[dict[str, float]]:
    """For sequences of some lengths: what our cache holds, and what the AR twin's full cache would."""
    model = load_diffusion_model(
        open_checkpoint(
            EngineConfig(
                kind=EngineKind.DIFFUSION,
                model="storyteller",
                revision="local",
                source=f"file://{paths.STORYTELLER}",
                path=str(paths.STORYTELLER),
            )
        )
    )
    twin = json.loads((paths.STORYTELLER_AR / "config.json").read_text())
    heads = twin["num_key_value_heads"] * twin["head_dim"]
    per_token = 2 * twin["num_hidden_layers"] * heads * _FLOAT_BYTES
    rows = []
    for length in _LENGTHS:
        cache = model.new_cache(max_rows=1)
        cache.take_slot()
        for begin in range(0, length, CANVAS):  # as an answer grows
            model.encode(cache, [0], [begin], [[5] * CANVAS])
        # The pass that wrote last still has its room; the next step of an answer uses it for the canvas.
        rows.append({"length": length, "ours": cache.nbytes.total, "ar": length * per_token})
    return rows


def _peaks(wanted: list[Case]) -> list[int]:
    lines = "".join(json.dumps({"rows": c.rows, "prompt": c.prompt, "tokens": c.tokens}) + "\n" for c in wanted)
    child = subprocess.Popen(
        [sys.executable, "-m", "benchmarks.engine.memory_child"],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
        env=os.environ | _GIVE_BACK_AT_ONCE,
    )
    with child:
        if child.stdin is None or child.stdout is None:
            raise RuntimeError("the child was started without pipes")
        child.stdin.write(lines)
        child.stdin.close()
        peaks = []
        for case, line in zip(wanted, child.stdout, strict=False):
            peaks.append(int(line))
            say(f"memory, {case}: {peaks[-1] / 2**20:.1f} MiB")
    if len(peaks) != len(wanted):
        raise BenchmarkError(
            f"the measured process ended with {child.returncode} after {len(peaks)} of {len(wanted)} cases"
        )
    return peaks
