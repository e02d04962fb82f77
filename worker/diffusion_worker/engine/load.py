"""From a worker's configuration to a running engine."""

import torch

from diffusion_worker.config import EngineConfig, EngineKind
from diffusion_worker.engine.ar import ARRunner
from diffusion_worker.engine.diffusion import DiffusionRunner
from diffusion_worker.engine.loop import Engine
from diffusion_worker.engine.mask_diffusion import MaskDiffusionRunner
from diffusion_worker.engine.observer import Observer
from diffusion_worker.engine.runner import Runner
from diffusion_worker.models.ar import load_ar_model
from diffusion_worker.models.checkpoint import Checkpoint, open_checkpoint
from diffusion_worker.models.diffusion import FullAttentionLimit, load_diffusion_model
from diffusion_worker.models.errors import UnsupportedCheckpointError
from diffusion_worker.models.mask_diffusion import is_mask_model, load_mask_model


def load_engine(config: EngineConfig, *, observer: Observer | None = None) -> Engine:
    """Load the checkpoint and start its engine; as `load_runner`."""
    return Engine(
        load_runner(config),
        batch_window_seconds=config.batch_window_seconds,
        repetition_window=config.repetition_window,
        score_share=config.score_share,
        observer=observer,
    )


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
