"""Before a worker is ready: the largest step is run once, and what it took is compared with the budget."""

import logging
from collections.abc import Sequence
from dataclasses import dataclass

import torch

from diffusion_worker.config import PlannedBytes, SamplerSettings
from diffusion_worker.engine.admission import admit_request
from diffusion_worker.engine.memory_meter import MemoryMeter
from diffusion_worker.engine.memory_steps import Stage, largest_steps
from diffusion_worker.engine.resident_meter import ResidentMeter, resident_bytes
from diffusion_worker.engine.row import Row
from diffusion_worker.engine.runner import Runner
from diffusion_worker.engine.scorer import ScoreRow
from diffusion_worker.models.errors import MemoryBudgetError
from diffusion_worker.sizing import EngineCosts, Workload
from diffusion_worker.sizing.costs import SCORED_TOKENS_BESIDE
from diffusion_worker.wire import GenerateRequest

_log = logging.getLogger(__name__)
_TOKEN = 5
_FLAT, _NARROW = 2.0, 0.001  # temperature and top_p with which hardly any draw is within the nucleus at once
_STEPS = 2  # of a mask model the first is over whole sequences, the other over blocks
_MIB = 2**20


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


def measure_largest_step(
    runner: Runner, load: Workload, costs: EngineCosts, *, meter: MemoryMeter | ResidentMeter | None = None
) -> MeasuredBytes:
    """Every kind of step that may be the largest, of rows that ask for what takes most memory.

    It looks as if the beginnings of their prompts were in the cache: its content does not matter. `meter` is how it is
    measured; None: as the device allows without taking memory itself.
    """
    reserve = _process_bytes(runner)
    if meter is None:
        meter = MemoryMeter(runner.device) if runner.device.type == "cuda" else ResidentMeter()
    with meter:
        kv = max(_rehearse(runner, load, stages) for stages in largest_steps(load, costs.layers))
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


def _rehearse(runner: Runner, load: Workload, stages: Sequence[Stage]) -> int:
    """Steps, each with more rows, beside a text that is scored; most bytes of keys and values after one."""
    rows: list[Row] = []
    held = []
    text = _begin_score(runner, load)
    try:
        for stage in stages:
            for left in stage.left:
                row = _row(runner, stage, is_autoregressive=load.canvas == 1)
                row.arrived = -len(rows)  # who came first reads first: so that those who read are not the first slots
                row.count_cached(stage.prompt - left)
                runner.admit(row)
                rows.append(row)
            runner.step(rows)
            held.append(runner.cache_bytes + (0 if runner.scorer is None else runner.scorer.cache_bytes))
        if text is not None and runner.scorer is not None:
            text.cached = max(0, len(text.inputs) - SCORED_TOKENS_BESIDE)
            runner.scorer.step(tokens=SCORED_TOKENS_BESIDE)
        return max(held)
    finally:
        if text is not None and runner.scorer is not None:
            runner.scorer.end()
        for row in rows:
            runner.release(row)


def _row(runner: Runner, stage: Stage, *, is_autoregressive: bool) -> Row:
    request = GenerateRequest(
        request_id="measure",
        prompt_token_ids=[_TOKEN] * stage.prompt,
        max_tokens=stage.answer,
        temperature=_FLAT,
        top_p=_NARROW,
        logprobs=1 if is_autoregressive else None,
        sampler=SamplerSettings(max_denoising_steps=_STEPS),
    )
    return admit_request(request, runner=runner, emit=lambda _: None)


def _begin_score(runner: Runner, load: Workload) -> ScoreRow | None:
    """The longest text, all but the last of whose tokens have been read; None where nothing is scored."""
    if runner.scorer is None or not load.scores or load.tokens < 2:
        return None
    prompt = max(1, load.tokens - SCORED_TOKENS_BESIDE)
    text = ScoreRow(
        request_id="measure",
        prompt_token_ids=[_TOKEN] * prompt,
        completion_token_ids=[_TOKEN] * (load.tokens - prompt),
        include_eos=True,
        text_bytes=0,
        emit=lambda _: None,
    )
    runner.scorer.begin([text])
    text.cached = load.tokens - 2
    runner.scorer.step(tokens=1)
    return text


def _process_bytes(runner: Runner) -> int:
    """What is there beside tensors."""
    if runner.device.type == "cuda":
        free, total = torch.cuda.mem_get_info(runner.device)
        return max(0, total - free - torch.cuda.memory_allocated(runner.device))
    return max(0, resident_bytes() - runner.weight_bytes)
