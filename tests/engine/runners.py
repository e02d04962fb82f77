"""Runners for tests: real ones that can be told to misbehave, and one that records what a step was made of."""

from collections.abc import Callable, Sequence

from diffusion_worker.config import MaskCache, SamplerConfig
from diffusion_worker.engine.ar import ARRunner
from diffusion_worker.engine.diffusion import DiffusionRunner
from diffusion_worker.engine.mask_diffusion import MaskDiffusionRunner
from diffusion_worker.engine.row import Row
from diffusion_worker.engine.runner import StepResult
from diffusion_worker.models.ar import ARModel
from diffusion_worker.models.diffusion import DiffusionModel
from diffusion_worker.models.mask_diffusion import MaskModel
from diffusion_worker.samplers.settings import Settings
from diffusion_worker.wire import GenerateRequest


def diffusion_runner(
    model: DiffusionModel, *, max_batch_size: int = 4, max_sequence_length: int | None = None, **sampler: object
) -> DiffusionRunner:
    """Runner of a diffusion model."""
    return DiffusionRunner(
        model,
        settings=SamplerConfig.model_validate(sampler),
        max_batch_size=max_batch_size,
        max_sequence_length=max_sequence_length,
    )


def mask_runner(
    model: MaskModel,
    *,
    cache: MaskCache = MaskCache.PREFIX,
    max_batch_size: int = 4,
    max_sequence_length: int | None = None,
    **sampler: object,
) -> MaskDiffusionRunner:
    """Runner of a mask model whose answers are as long as asked for; blocks of 16."""
    runner = MaskDiffusionRunner(
        model,
        settings=SamplerConfig.model_validate({"canvas_length": 16} | sampler),
        cache=cache,
        max_batch_size=max_batch_size,
        max_sequence_length=max_sequence_length,
    )
    runner.eos_token_ids = frozenset()
    return runner


def ar_runner(model: ARModel, *, max_batch_size: int = 4, max_sequence_length: int | None = None) -> ARRunner:
    """Runner of an autoregressive model."""
    return ARRunner(model, max_batch_size=max_batch_size, max_sequence_length=max_sequence_length)


class WatchedRunner:
    """Passes everything to a runner, after `before_step` has seen the rows (and may raise or wait)."""

    def __init__(
        self, runner: DiffusionRunner | MaskDiffusionRunner | ARRunner, before_step: Callable[[Sequence[Row]], None]
    ) -> None:
        self._runner = runner
        self._before_step = before_step
        self.tokenizer = runner.tokenizer
        self.device = runner.device
        self.weight_bytes = runner.weight_bytes
        self.limits = runner.limits
        self.eos_token_ids = runner.eos_token_ids
        self.max_batch_size = runner.max_batch_size
        self.scorer = runner.scorer
        self.slots_taken = 0

    @property
    def cache_bytes(self) -> int:
        """Pass on."""
        return self._runner.cache_bytes

    def settings_for(self, request: GenerateRequest) -> Settings | None:
        """Pass on."""
        return self._runner.settings_for(request)

    def admit(self, row: Row) -> None:
        """Count and pass on."""
        self._runner.admit(row)
        self.slots_taken += 1

    def release(self, row: Row) -> None:
        """Count and pass on."""
        self.slots_taken -= row.slot is not None
        self._runner.release(row)

    def step(self, rows: Sequence[Row]) -> StepResult:
        """Let the test look first."""
        self._before_step(rows)
        return self._runner.step(rows)
