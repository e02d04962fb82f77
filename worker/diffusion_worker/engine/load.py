"""From a worker's configuration to a running engine."""

from dataclasses import replace

import torch

from diffusion_worker.config import EngineConfig, EngineKind
from diffusion_worker.engine.ar import ARRunner
from diffusion_worker.engine.diffusion import DiffusionRunner
from diffusion_worker.engine.loop import Engine
from diffusion_worker.engine.mask_diffusion import DEFAULT_BLOCK_LENGTH, MaskDiffusionRunner
from diffusion_worker.engine.memory_check import MeasuredBytes, check, measure_largest_step
from diffusion_worker.engine.memory_plan import PlannedModel, RowMemory
from diffusion_worker.engine.observer import Observer
from diffusion_worker.engine.runner import Runner
from diffusion_worker.inspect.errors import InspectError
from diffusion_worker.inspect.folder import inspect_folder
from diffusion_worker.models.ar import load_ar_model
from diffusion_worker.models.checkpoint import Checkpoint, open_checkpoint
from diffusion_worker.models.diffusion import FullAttentionLimit, load_diffusion_model
from diffusion_worker.models.errors import UnsupportedCheckpointError
from diffusion_worker.models.mask_diffusion import is_mask_model, load_mask_model
from diffusion_worker.sizing import Arm, Device, Dtype, Workload, engine_costs


def load_engine(config: EngineConfig, *, observer: Observer | None = None) -> Engine:
    """Load the checkpoint and start its engine; as `load_runner`.

    With a budget the largest step is run first: MemoryBudgetError when it takes more.
    """
    runner = load_runner(config)
    if config.memory_budget is None and config.planned is None:
        return _engine(config, runner, RowMemory(max_rows=runner.max_batch_size), None, observer)
    model = _planned_model(config, runner)
    memory = RowMemory(max_rows=runner.max_batch_size)
    room = max(0, (config.memory_budget or 0) - runner.weight_bytes)
    if config.planned is not None:
        room = config.planned.kv + config.planned.step
        memory = RowMemory(max_rows=runner.max_batch_size, model=model, budget=room)
    rows = max(1, model.rows_within(room, at_most=runner.max_batch_size))
    if runner.scorer is not None:
        runner.scorer.max_rows = min(runner.scorer.max_rows, rows)
    measured = None
    if config.memory_budget is not None:
        measured = measure_largest_step(runner, replace(model.longest, rows=rows), model.costs)
        tokens = runner.limits.max_sequence_length
        check(measured, planned=config.planned, budget=config.memory_budget, rows=rows, tokens=tokens)
    return _engine(config, runner, memory, measured, observer)


def _engine(
    config: EngineConfig,
    runner: Runner,
    memory: RowMemory,
    measured: MeasuredBytes | None,
    observer: Observer | None,
) -> Engine:
    return Engine(
        runner,
        batch_window_seconds=config.batch_window_seconds,
        repetition_window=config.repetition_window,
        score_share=config.score_share,
        memory=memory,
        measured=measured,
        observer=observer,
    )


def _planned_model(config: EngineConfig, runner: Runner) -> PlannedModel:
    """What the costs of this model's rows follow from. Raises CheckpointError when the checkpoint cannot be read."""
    checkpoint = open_checkpoint(config)
    try:
        facts = inspect_folder(checkpoint.folder)
    except InspectError as error:
        raise UnsupportedCheckpointError(str(error)) from error
    arm = Arm(config.kind.value)
    canvas = config.sampler.canvas_length or facts.canvas_length or DEFAULT_BLOCK_LENGTH
    longest = Workload(
        rows=1,
        tokens=runner.limits.max_sequence_length,
        canvas=1 if arm is Arm.AR else canvas,
        guidance=False,
        dtype=Dtype(str(checkpoint.dtype).removeprefix("torch.")),
        gpus=1,
        attention_window=config.full_attention_window,
        attention_sink=config.full_attention_sink,
        mask_cache=config.mask_cache,
    )
    return PlannedModel(facts, longest, engine_costs(arm, Device(runner.device.type), facts.family))


def load_runner(config: EngineConfig) -> Runner:
    """Load the checkpoint. Blocks while it loads; raises CheckpointError when it cannot.

    Sets torch's thread count, which is one for the whole process.
    """
    torch.set_num_threads(config.threads)
    checkpoint = open_checkpoint(config)
    runner: Runner
    match config.kind:
        case EngineKind.DIFFUSION if is_mask_model(checkpoint.model_type):
            runner = _mask_diffusion_runner(checkpoint, config)
        case EngineKind.DIFFUSION:
            runner = DiffusionRunner(
                load_diffusion_model(checkpoint, limit=_limit(config)),
                settings=config.sampler,
                max_batch_size=config.max_batch_size,
                max_sequence_length=config.max_sequence_length,
            )
        case EngineKind.AR:
            runner = ARRunner(
                load_ar_model(checkpoint),
                max_batch_size=config.max_batch_size,
                max_sequence_length=config.max_sequence_length,
            )
    return runner


def _limit(config: EngineConfig) -> FullAttentionLimit | None:
    if config.full_attention_window is None:
        return None
    return FullAttentionLimit(window=config.full_attention_window, sink=config.full_attention_sink)


def _mask_diffusion_runner(checkpoint: Checkpoint, config: EngineConfig) -> MaskDiffusionRunner:
    if config.full_attention_window is not None:
        raise UnsupportedCheckpointError(
            f"full_attention_window is {config.full_attention_window}, but a {checkpoint.model_type} model was trained "
            "to see its whole sequence both ways; leave it out"
        )
    return MaskDiffusionRunner(
        load_mask_model(checkpoint),
        settings=config.sampler,
        cache=config.mask_cache,
        max_batch_size=config.max_batch_size,
        max_sequence_length=config.max_sequence_length,
    )
