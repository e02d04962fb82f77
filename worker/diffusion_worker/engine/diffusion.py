"""Steps of diffusion rows: committed tokens into the cache, then one denoising step of every canvas."""

import time
from collections.abc import Sequence
from dataclasses import dataclass

import torch

from diffusion_worker.config import SamplerConfig, SamplerName
from diffusion_worker.engine import drafts
from diffusion_worker.engine.base import CanvasRunner
from diffusion_worker.engine.canvas import Canvas, Canvases, CanvasState
from diffusion_worker.engine.observer import Pass, PassKind
from diffusion_worker.engine.row import Row
from diffusion_worker.engine.runner import Commit, Draft, StepResult
from diffusion_worker.engine.slots import Slots, in_slot_order, prefill_chunks, slot_of
from diffusion_worker.engine.transition import Step, StepPlan, advance
from diffusion_worker.models.diffusion import DiffusionModel
from diffusion_worker.samplers.capabilities import UNIFORM_NOISE_SAMPLERS
from diffusion_worker.samplers.categorical import predict, sample
from diffusion_worker.samplers.guidance import guide
from diffusion_worker.samplers.randomness import Stream, integers, row_key, uniforms
from diffusion_worker.samplers.schedules import settled_time
from diffusion_worker.samplers.settings import Settings
from diffusion_worker.samplers.stopping import is_confident, is_stable


class DiffusionRunner(CanvasRunner):
    """Runs rows of a DiffusionGemma model. Each row is at its own canvas and step, and has its own sampler."""

    def __init__(
        self,
        model: DiffusionModel,
        *,
        settings: SamplerConfig,
        max_batch_size: int,
        max_sequence_length: int | None = None,
    ) -> None:
        """Raises SamplerError for `settings` that the model's samplers cannot honour."""
        super().__init__(
            model,
            checkpoint=model.sampler_defaults,
            resource=settings,
            offered=UNIFORM_NOISE_SAMPLERS,
            max_batch_size=max_batch_size,
            max_sequence_length=max_sequence_length,
        )
        self._model = model
        self._canvas_length = settings.canvas_length or model.canvas_length
        self._slots = Slots(model.new_cache(max_rows=max_batch_size))
        first = model.no_soft_embedding()[:1].expand(self._canvas_length, -1)
        self._canvases = Canvases(no_soft_embedding=first)

    @property
    def cache_bytes(self) -> int:
        """What the keys and values of all rows take now."""
        return self._slots.cache.nbytes.total

    def admit(self, row: Row) -> None:
        """Give the row a slot of the cache."""
        self._slots.take(row)

    def release(self, row: Row) -> None:
        """Take the row's slot back."""
        freed = row.slot
        moved = self._slots.free(row)
        if freed is not None and moved is not None:
            self._canvases.move(source=moved, target=freed)

    def step(self, rows: Sequence[Row]) -> StepResult:
        """Write what is pending, then denoise every row that has nothing pending left."""
        rows = in_slot_order(rows)
        chunks = prefill_chunks(rows, step_tokens=self._canvas_length)
        passes = [self._encode([row for row, _ in chunks], [chunk for _, chunk in chunks])] if chunks else []
        ready = [row for row in rows if not row.pending]
        if not ready:
            return StepResult(passes=passes)
        result = self._denoise(ready)
        result.passes[:0] = passes
        return result

    def _encode(self, rows: list[Row], chunks: list[list[int]]) -> Pass:
        started = time.monotonic()
        self._model.encode(self._slots.cache, [slot_of(row) for row in rows], [row.cached for row in rows], chunks)
        for row, chunk in zip(rows, chunks, strict=True):
            row.count_cached(len(chunk))
        return Pass(PassKind.ENCODE, rows=len(rows), seconds=time.monotonic() - started)

    @torch.inference_mode()
    def _denoise(self, rows: list[Row]) -> StepResult:
        started = time.monotonic()
        self._begin_canvases([row for row in rows if row.canvas is None])
        batch = _Batch.of(rows)
        plan = StepPlan.of(batch.settings, batch.canvases, self._model.device)
        state = self._canvases.read(batch.slots)
        prediction = predict(self._logits(batch, state), plan.temperature)
        sample_keys = self._keys(batch, Stream.SAMPLE)
        x_0 = sample(prediction, u=uniforms(sample_keys, self._canvas_length), top_p=plan.top_p, greedy=plan.greedy)
        step = Step(
            x_t=state.x_t,
            x_0=x_0,
            accepted=state.accepted,
            entropy=prediction.entropy,
            confidence=prediction.probs.gather(-1, x_0[..., None]).squeeze(-1),
            noise=self._noise(self._keys(batch, Stream.NOISE, step_offset=1)),
            sample_keys=sample_keys,
            t=plan.t,
            s=plan.s,
            entropy_bound=plan.entropy_bound,
            stochasticity=plan.stochasticity,
            accept_threshold=plan.accept_threshold,
            vocab_size=self._model.vocab_size,
        )
        x_s, accepted = advance(batch.settings, step)
        after = CanvasState(
            x_t=x_s,
            accepted=accepted,
            best=torch.where(accepted, x_s, prediction.argmax),
            soft_embedding=self._next_soft_embedding(plan, state, prediction.probs),
        )
        seen = _Report.of(before=state, after=after, entropy=prediction.entropy)
        self._canvases.write(batch.slots, after)
        result = _conclude(batch, plan, seen)
        result.passes.append(Pass(PassKind.DENOISE, rows=len(rows), seconds=time.monotonic() - started))
        return result

    def _begin_canvases(self, rows: list[Row]) -> None:
        """Give these rows a new canvas of noise."""
        if not rows:
            return
        keys = [row_key(seed=row.seed, canvas=row.blocks, step=0, stream=Stream.NOISE) for row in rows]
        self._canvases.begin([slot_of(row) for row in rows], self._noise(torch.tensor(keys, device=self._model.device)))
        for row in rows:
            row.canvas = Canvas(index=row.blocks)

    def _logits(self, batch: "_Batch", state: CanvasState) -> torch.Tensor:
        """Logits [B, C, V] of the canvases; a row with guidance takes part in the pass a second time, without prompt."""
        again = [i for i, settings in enumerate(batch.settings) if settings.guidance_scale > 0]
        cache, slots, lengths = self._slots.cache, batch.slots, [row.cached for row in batch.rows]
        if not again:
            return self._model.denoise(cache, slots, lengths, state.x_t, state.soft_embedding)
        logits = self._model.denoise(
            cache,
            slots + [slots[i] for i in again],
            lengths + [lengths[i] for i in again],
            torch.cat([state.x_t, state.x_t[again]]),
            torch.cat([state.soft_embedding, state.soft_embedding[again]]),
            [0] * len(slots) + [len(batch.rows[i].prompt_token_ids) for i in again],
        )
        scales = torch.tensor([batch.settings[i].guidance_scale for i in again], device=logits.device)
        conditional, unconditional = logits[: len(slots)], logits[len(slots) :]
        for i, without_prompt, scale in zip(again, unconditional, scales, strict=True):
            guide(conditional[i], without_prompt, guidance_scale=scale)
        return conditional

    def _next_soft_embedding(self, plan: StepPlan, state: CanvasState, probs: torch.Tensor) -> torch.Tensor:
        """Self-conditioning of the next step, [B, C, d]. After its last step a canvas has none, and keeps what it had."""
        soft_embedding = state.soft_embedding.clone()
        for i, is_last in enumerate(plan.is_last):
            if not is_last:
                self._model.soft_embedding(probs[i], out=soft_embedding[i])
        return soft_embedding

    def _keys(self, batch: "_Batch", stream: Stream, *, step_offset: int = 0) -> torch.Tensor:
        keys = [
            row_key(seed=row.seed, canvas=canvas.index, step=canvas.step + step_offset, stream=stream)
            for row, canvas in zip(batch.rows, batch.canvases, strict=True)
        ]
        return torch.tensor(keys, device=self._model.device)

    def _noise(self, keys: torch.Tensor) -> torch.Tensor:
        return integers(keys, self._canvas_length, high=self._model.vocab_size)


@dataclass(frozen=True)
class _Batch:
    """The rows of one denoising pass, each with what it must have by then."""

    rows: list[Row]
    slots: list[int]
    canvases: list[Canvas]
    settings: list[Settings]

    @classmethod
    def of(cls, rows: list[Row]) -> "_Batch":
        canvases = [row.canvas for row in rows if row.canvas is not None]
        settings = [row.settings for row in rows if row.settings is not None]
        if not len(canvases) == len(settings) == len(rows):
            raise RuntimeError("a row of this runner needs settings and a canvas")
        return cls(rows, [slot_of(row) for row in rows], canvases, settings)


@dataclass(frozen=True)
class _Report:
    """What the host must know of a step, by row. One transfer from the device brings all of it."""

    best: torch.Tensor  # [B, C]: tokens to commit if the canvas ends here
    mean_entropy: list[float]  # nats; NaN where the logits were
    changed: list[int]  # positions whose best token is not that of the step before
    is_accepted: list[bool]  # all positions are final

    @classmethod
    def of(cls, *, before: CanvasState, after: CanvasState, entropy: torch.Tensor) -> "_Report":
        changed = (after.best != before.best).sum(dim=-1, keepdim=True)
        is_accepted = after.accepted.all(dim=-1, keepdim=True).to(torch.int64)
        mean_entropy = entropy.mean(dim=-1, keepdim=True).to(torch.float64).view(torch.int64)
        on_host = torch.cat([after.best, changed, is_accepted, mean_entropy], dim=-1).cpu()
        return cls(
            best=on_host[:, :-3],
            mean_entropy=on_host[:, -1].contiguous().view(torch.float64).tolist(),
            changed=on_host[:, -3].tolist(),
            is_accepted=on_host[:, -2].bool().tolist(),
        )


def _conclude(batch: _Batch, plan: StepPlan, seen: _Report) -> StepResult:
    """Move each canvas on, or commit it. Nothing before this has changed a row's place in its canvas."""
    result = StepResult(passes=[])
    for i, (row, canvas, settings) in enumerate(zip(batch.rows, batch.canvases, batch.settings, strict=True)):
        mean_entropy, changed = seen.mean_entropy[i], seen.changed[i]
        if mean_entropy != mean_entropy:
            result.non_finite.append(row)
            continue
        steps = canvas.step + 1
        unchanged_steps = 0 if changed else canvas.unchanged_steps + 1
        is_settled = (
            settings.stops_early
            and is_stable(unchanged_steps, settings.stability_threshold)
            and is_confident(mean_entropy, settings.confidence_threshold)
        )
        if is_settled or seen.is_accepted[i] or plan.is_last[i]:
            # For the other samplers the last step is no cap: their grid plans for it, and it decides all positions.
            converged = is_settled or settings.name != SamplerName.ENTROPY_BOUND
            committed: list[int] = seen.best[i].tolist()
            row.canvas = None
            row.pending = list(committed)
            result.commits.append(Commit(row, committed, steps=steps, converged=converged))
        else:
            row.canvas = Canvas(
                index=canvas.index,
                step=steps,
                time_index=plan.next_time_index[i],
                unchanged_steps=unchanged_steps,
                looks_like=settled_time(changed=changed / seen.best.shape[1], mean_entropy=mean_entropy),
            )
            if row.drafts and drafts.is_due(steps, planned_steps=settings.max_denoising_steps):
                result.drafts.append(Draft(row, seen.best[i].tolist(), step=steps))
    return result
