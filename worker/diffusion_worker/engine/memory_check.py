"""Before a worker is ready: the largest step is run once, and what it took is compared with the budget."""

import logging
import re
from dataclasses import dataclass
from pathlib import Path

import torch

from diffusion_worker.config import PlannedBytes, SamplerSettings
from diffusion_worker.engine.admission import admit_request
from diffusion_worker.engine.memory_meter import MemoryMeter
from diffusion_worker.engine.row import Row
from diffusion_worker.engine.runner import Runner
from diffusion_worker.models.errors import CheckpointError
from diffusion_worker.sizing.costs import PREFILL_CHUNK, PREFILL_ROWS
from diffusion_worker.wire import GenerateRequest

_log = logging.getLogger(__name__)
_TOKEN = 5
_STEPS = 2  # of a mask model the first is over whole sequences, the other over blocks
_MIB = 2**20


class MemoryBudgetError(CheckpointError):
    """The largest step takes more than the budget."""


@dataclass(frozen=True)
class MeasuredBytes:
    """What a worker takes at its peak, by the parts of a plan."""

    weights: int
    kv: int
    step: int
    reserve: int  # of the process itself; on a GPU of its context and of what the allocator keeps

    @property
    def total(self) -> int:
        """All of them."""
        return self.weights + self.kv + self.step + self.reserve


def measure_largest_step(runner: Runner, *, rows: int, canvas: int, answer: int = 1) -> MeasuredBytes:
    """All rows at their longest, as if the beginnings of their prompts were in the cache: its content does not matter.

    First some read the end of their prompts together; then one does while all others are in their last canvas. Answers
    have `answer` tokens: a mask model's block is as long as its answer lets it.
    """
    reserve = _process_bytes(runner)
    with MemoryMeter(runner.device) as meter:
        reading = [PREFILL_CHUNK] * min(rows, PREFILL_ROWS)
        beside = [PREFILL_CHUNK, *[canvas] * (rows - 1)]
        kv = max(_rehearse(runner, reading, answer), _rehearse(runner, beside, answer))
    return MeasuredBytes(weights=runner.weight_bytes, kv=kv, step=max(0, meter.peak_bytes - kv), reserve=reserve)


def check(measured: MeasuredBytes, *, planned: PlannedBytes | None, budget: int, rows: int, tokens: int) -> None:
    """Raises MemoryBudgetError, with all numbers, when the peak is over the budget."""
    parts = ", ".join(
        f"{name} {getattr(measured, name) / _MIB:,.1f} MiB"
        + ("" if planned is None else f" (planned {getattr(planned, name) / _MIB:,.1f})")
        for name in PlannedBytes.model_fields
    )
    said = (
        f"the largest step ({rows} rows of {tokens} tokens) takes {measured.total / _MIB:,.1f} MiB of a budget of "
        f"{budget / _MIB:,.1f}: {parts}"
    )
    if measured.total > budget:
        raise MemoryBudgetError(f"{said}; lower limits.maxBatchSize or limits.maxSequenceLength, or give more memory")
    _log.info("%s", said)


def _rehearse(runner: Runner, pending: list[int], answer: int) -> int:
    """Two steps of rows that have so many tokens of their prompts left; most bytes of keys and values after one."""
    prompt = max(1, runner.limits.max_sequence_length - answer)
    rows: list[Row] = []
    try:
        for left in pending:
            request = GenerateRequest(
                request_id="measure",
                prompt_token_ids=[_TOKEN] * prompt,
                max_tokens=min(answer, runner.limits.max_sequence_length - prompt),
                sampler=SamplerSettings(max_denoising_steps=_STEPS),
            )
            row = admit_request(request, runner=runner, emit=lambda _: None)
            row.count_cached(max(0, prompt - left))
            runner.admit(row)
            rows.append(row)
        held = []
        for _ in range(_STEPS):
            runner.step(rows)
            held.append(runner.cache_bytes)
        return max(held)
    finally:
        for row in rows:
            runner.release(row)


def _process_bytes(runner: Runner) -> int:
    """What is there beside tensors."""
    if runner.device.type == "cuda":
        free, total = torch.cuda.mem_get_info(runner.device)
        return max(0, total - free - torch.cuda.memory_allocated(runner.device))
    status = Path("/proc/self/status").read_text(encoding="utf-8")
    resident = re.search(r"^VmRSS:\s+(\d+) kB$", status, re.MULTILINE)
    return 0 if resident is None else max(0, int(resident[1]) * 1024 - runner.weight_bytes)
