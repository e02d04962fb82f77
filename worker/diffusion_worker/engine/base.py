"""What the runners have in common: what they take from a model, and how they read what is said about canvases."""

from collections.abc import Collection
from typing import Protocol

import torch

from diffusion_worker.config import SamplerConfig, SamplerName, SamplerSettings
from diffusion_worker.engine.canvas_settings import canvas_settings
from diffusion_worker.engine.runner import Limits
from diffusion_worker.engine.scorer import Scorer
from diffusion_worker.models.errors import UnsupportedCheckpointError
from diffusion_worker.models.tokenizer import Tokenizer
from diffusion_worker.samplers.settings import SamplerDefaults, Settings
from diffusion_worker.wire import GenerateRequest


class ServedModel(Protocol):
    """What every model tells of itself."""

    tokenizer: Tokenizer
    vocab_size: int
    max_sequence_length: int
    eos_token_ids: frozenset[int]
    device: torch.device
    weight_bytes: int


class BaseRunner:
    """The part of a runner that does not depend on how its model decodes."""

    def __init__(self, model: ServedModel, *, max_batch_size: int, max_sequence_length: int | None) -> None:
        """UnsupportedCheckpointError when more tokens are wanted than the model has positions."""
        of_model = model.max_sequence_length
        if max_sequence_length is not None and max_sequence_length > of_model:
            raise UnsupportedCheckpointError(
                f"max_sequence_length {max_sequence_length} is more than the {of_model} positions of the model; "
                "lower limits.maxSequenceLength"
            )
        self.tokenizer = model.tokenizer
        self.device = model.device
        self.weight_bytes = model.weight_bytes
        self.eos_token_ids = model.eos_token_ids
        self.limits = Limits(vocab_size=model.vocab_size, max_sequence_length=max_sequence_length or of_model)
        self.max_batch_size = max_batch_size
        self.scorer: Scorer | None = None


class CanvasRunner(BaseRunner):
    """The part of a runner of canvases that does not depend on their noise."""

    def __init__(
        self,
        model: ServedModel,
        *,
        checkpoint: SamplerSettings,
        resource: SamplerConfig,
        offered: Collection[SamplerName],
        max_batch_size: int,
        max_sequence_length: int | None,
    ) -> None:
        """Settings of the checkpoint hold where the resource says nothing; `offered` samplers suit the model's noise.

        Raises SamplerError for settings of the resource that they cannot honour.
        """
        super().__init__(model, max_batch_size=max_batch_size, max_sequence_length=max_sequence_length)
        self._defaults = SamplerDefaults(checkpoint=checkpoint, resource=resource, offered=offered)
        self._defaults.settings_for(SamplerSettings())  # finds fault with the resource's settings at start

    def settings_for(self, request: GenerateRequest) -> Settings:
        """How the canvases of a request will be denoised; refuses what its sampler cannot honour."""
        return canvas_settings(self._defaults, request)
