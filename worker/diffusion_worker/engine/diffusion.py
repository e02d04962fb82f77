"""Steps of diffusion rows: committed tokens into the cache, then one denoising step of every canvas."""

import time
from collections.abc import Sequence

import torch

from diffusion_worker.config import SamplerConfig
from diffusion_worker.engine.canvas import Canvas
from diffusion_worker.engine.observer import Pass, PassKind
from diffusion_worker.engine.row import Row
from diffusion_worker.engine.runner import (
    Commit,
    Failure,
    Limits,
    StepResult,
    UnsupportedParameterError,
    sequence_limit,
)
from diffusion_worker.engine.slots import Slots, in_slot_order, next_chunks, slot_of
from diffusion_worker.models.cache import KVCache
from diffusion_worker.models.diffusion import DiffusionModel
from diffusion_worker.samplers.categorical import Prediction, predict, sample
from diffusion_worker.samplers.entropy_bound import accept, is_confident, is_stable, renoise
from diffusion_worker.samplers.randomness import Stream, integers, row_key, uniforms
from diffusion_worker.samplers.schedules import linear_temperature
from diffusion_worker.wire import GenerateRequest

_MIN_TEMPERATURE = 1e-4  # below it logits / temperature may overflow, and the draw is the most likely token anyway


class DiffusionRunner:
    """Runs rows of a DiffusionGemma model. Each row is at its own canvas and step."""

    def __init__(
        self,
        model: DiffusionModel,
        *,
        settings: SamplerConfig,
        max_batch_size: int,
        max_sequence_length: int | None = None,
    ) -> None:
        limit = sequence_limit(max_sequence_length, model.max_sequence_length)
        self.tokenizer = model.tokenizer
        self.eos_token_ids = model.eos_token_ids
        self.limits = Limits(vocab_size=model.vocab_size, max_sequence_length=limit)
        self.max_batch_size = max_batch_size
        self._model = model
        self._settings = model.sampler_defaults.overridden_by(settings)
        self._slots = Slots(KVCache(max_rows=max_batch_size, max_length=limit))

    def check(self, request: GenerateRequest) -> None:
        """Refuse what only an autoregressive model can honour."""
        for param in request.autoregressive_only:
            raise UnsupportedParameterError(
                f"{param} needs a model that writes one token after another, and this one denoises whole canvases; "
                "leave it out, or send the request to an autoregressive arm",
                param=param,
            )

    def admit(self, row: Row) -> None:
        """Give the row a slot of the cache."""
        self._slots.take(row)

    def release(self, row: Row) -> None:
        """Take the row's slot back."""
        self._slots.free(row)

    def step(self, rows: Sequence[Row]) -> StepResult:
        """Write what is pending, then denoise every row that has nothing pending left."""
        pending = [row for row in in_slot_order(rows) if row.pending]
        # Canvases are short and prompts may be long: apart, the canvases need no padding to a prompt's length.
        short = [row for row in pending if len(row.pending) <= self._model.canvas_length]
        long = [row for row in pending if len(row.pending) > self._model.canvas_length]
        passes = [self._encode(group) for group in (short, long) if group]
        ready = [row for row in in_slot_order(rows) if not row.pending]
        if not ready:
            return StepResult(passes=passes, commits=[], failures=[])
        result = self._denoise(ready)
        return StepResult(passes=passes + result.passes, commits=result.commits, failures=result.failures)

    def _encode(self, rows: list[Row]) -> Pass:
        started = time.monotonic()
        chunks = next_chunks(rows)
        self._model.encode(self._slots.cache, [slot_of(row) for row in rows], [row.cached for row in rows], chunks)
        for row, chunk in zip(rows, chunks, strict=True):
            row.count_cached(len(chunk))
        return Pass(PassKind.ENCODE, rows=len(rows), seconds=time.monotonic() - started)

    @torch.inference_mode()
    def _denoise(self, rows: list[Row]) -> StepResult:
        started = time.monotonic()
        canvases = [row.canvas or self._new_canvas(row) for row in rows]
        noise_keys = self._keys(rows, canvases, Stream.NOISE, step_offset=1)
        logits = self._model.denoise(
            self._slots.cache,
            [slot_of(row) for row in rows],
            [row.cached for row in rows],
            torch.stack([canvas.tokens for canvas in canvases]),
            torch.stack([canvas.soft_embedding for canvas in canvases]),
        )
        prediction = predict(logits, self._temperatures(rows, canvases))
        sampled = sample(
            prediction,
            u=uniforms(self._keys(rows, canvases, Stream.SAMPLE), self._model.canvas_length),
            top_p=self._tensor([min(row.top_p, self._settings.top_p) for row in rows]),
            greedy=self._tensor([row.temperature == 0 for row in rows]),
        )
        accepted = accept(prediction.entropy, self._settings.entropy_bound)
        noise = integers(noise_keys, self._model.canvas_length, high=self._model.vocab_size)
        tokens = renoise(sampled, accepted, noise)
        soft_embedding = self._model.soft_embedding(prediction.probs)
        return self._conclude(rows, canvases, prediction, tokens, soft_embedding, started)

    def _conclude(
        self,
        rows: list[Row],
        canvases: list[Canvas],
        prediction: Prediction,
        tokens: torch.Tensor,
        soft_embedding: torch.Tensor,
        started: float,
    ) -> StepResult:
        """Move each canvas on, or commit it. Nothing before this has changed a row."""
        settings = self._settings
        commits: list[Commit] = []
        failures: list[Failure] = []
        argmax = prediction.argmax.cpu()
        mean_entropies: list[float] = prediction.entropy.mean(dim=-1).tolist()
        for i, (row, canvas) in enumerate(zip(rows, canvases, strict=True)):
            if mean_entropies[i] != mean_entropies[i]:
                failures.append(Failure(row, "the model's predictions are not numbers (NaN) for this request"))
                continue
            converged = is_stable(argmax[i], canvas.argmax_history, settings.stability_threshold) and is_confident(
                mean_entropies[i], settings.confidence_threshold
            )
            steps = canvas.step + 1
            if converged or steps == settings.max_denoising_steps:
                committed: list[int] = argmax[i].tolist()
                row.canvas = None
                row.pending = list(committed)
                commits.append(Commit(row, committed, steps=steps, converged=converged))
            else:
                row.canvas = Canvas(
                    index=canvas.index,
                    tokens=tokens[i],
                    soft_embedding=soft_embedding[i],
                    step=steps,
                    argmax_history=[*canvas.argmax_history, argmax[i]][-settings.stability_threshold :],
                )
        done = Pass(PassKind.DENOISE, rows=len(rows), seconds=time.monotonic() - started)
        return StepResult(passes=[done], commits=commits, failures=failures)

    def _new_canvas(self, row: Row) -> Canvas:
        key = row_key(seed=row.seed, canvas=row.blocks, step=0, stream=Stream.NOISE)
        noise = integers(self._tensor([key]), self._model.canvas_length, high=self._model.vocab_size)
        return Canvas(index=row.blocks, tokens=noise[0], soft_embedding=self._model.no_soft_embedding())

    def _keys(self, rows: list[Row], canvases: list[Canvas], stream: Stream, *, step_offset: int = 0) -> torch.Tensor:
        return self._tensor(
            [
                row_key(seed=row.seed, canvas=canvas.index, step=canvas.step + step_offset, stream=stream)
                for row, canvas in zip(rows, canvases, strict=True)
            ]
        )

    def _temperatures(self, rows: list[Row], canvases: list[Canvas]) -> torch.Tensor:
        """The schedule's temperature times the request's. At 0 the draw is greedy, and the schedule stays as it is:

        at a true 0 every entropy were 0 too, and all positions would be accepted at once, however unsure.
        """
        settings = self._settings
        return self._tensor(
            [
                max(
                    _MIN_TEMPERATURE,
                    (row.temperature or 1.0)
                    * linear_temperature(
                        step=canvas.step,
                        max_denoising_steps=settings.max_denoising_steps,
                        temperature_min=settings.temperature_min,
                        temperature_max=settings.temperature_max,
                    ),
                )
                for row, canvas in zip(rows, canvases, strict=True)
            ]
        )

    def _tensor(self, values: list[int] | list[float] | list[bool]) -> torch.Tensor:
        return torch.tensor(values, device=self._model.device)
