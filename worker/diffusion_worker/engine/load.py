"""From a worker's configuration to a running engine."""

import torch

from diffusion_worker.config import EngineConfig, EngineKind
from diffusion_worker.engine.ar import ARRunner
from diffusion_worker.engine.diffusion import DiffusionRunner
from diffusion_worker.engine.loop import Engine
from diffusion_worker.engine.observer import Observer
from diffusion_worker.engine.runner import Runner
from diffusion_worker.models.ar import load_ar_model
from diffusion_worker.models.checkpoint import open_checkpoint
from diffusion_worker.models.diffusion import load_diffusion_model


def load_engine(config: EngineConfig, *, observer: Observer | None = None) -> Engine:
    """Load the checkpoint and start its engine. Blocks while it loads; raises CheckpointError when it cannot.

    Sets torch's thread count, which is one for the whole process.
    """
    torch.set_num_threads(config.threads)
    checkpoint = open_checkpoint(config)
    runner: Runner
    match config.kind:
        case EngineKind.DIFFUSION:
            runner = DiffusionRunner(
                load_diffusion_model(checkpoint),
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
    return Engine(runner, batch_window_seconds=config.batch_window_seconds, observer=observer)
