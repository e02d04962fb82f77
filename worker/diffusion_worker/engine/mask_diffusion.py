"""Steps of mask-model rows: each fills some of the masks of its own block, and begins the next one when none is left."""

import time
from collections.abc import Callable, Iterable, Iterator, Sequence

import torch

from diffusion_worker.config import MaskCache, SamplerConfig, SamplerName, SamplerSettings
from diffusion_worker.engine import drafts
from diffusion_worker.engine.base import CanvasRunner
from diffusion_worker.engine.canvas import Canvas
from diffusion_worker.engine.masked_answer import MaskedAnswer
from diffusion_worker.engine.masked_batch import MaskedBatch, Seen
from diffusion_worker.engine.observer import Pass, PassKind
from diffusion_worker.engine.row import Row
from diffusion_worker.engine.runner import Commit, Draft, StepResult
from diffusion_worker.models.mask_diffusion import MaskModel
from diffusion_worker.samplers import low_confidence
from diffusion_worker.samplers.capabilities import MASK_SAMPLERS
from diffusion_worker.samplers.categorical import predict, sample
from diffusion_worker.samplers.guidance import guide
from diffusion_worker.samplers.quota import quota
from diffusion_worker.sizing.costs import MASK_PASS_TOKENS, MASK_PREDICTIONS, PREFILL_CHUNK

DEFAULTS = SamplerSettings(
    name=SamplerName.LOW_CONFIDENCE,
    max_denoising_steps=20,
    temperature_min=0.2,
    temperature_max=0.2,
    accept_threshold=0.9,
)
"""The checkpoints say nothing about sampling: Dream's temperature, Fast-dLLM's threshold and block."""

DEFAULT_BLOCK_LENGTH = 32


class MaskDiffusionRunner(CanvasRunner):
    """Runs rows of a LLaDA or Dream model. Each row is at its own block and step, and has its own settings."""

    def __init__(
        self,
        model: MaskModel,
        *,
        settings: SamplerConfig,
        cache: MaskCache,
        max_batch_size: int,
        max_sequence_length: int | None = None,
    ) -> None:
        """Raises SamplerError for `settings` that low_confidence cannot honour."""
        super().__init__(
            model,
            checkpoint=DEFAULTS,
            resource=settings,
            offered=MASK_SAMPLERS,
            max_batch_size=max_batch_size,
            max_sequence_length=max_sequence_length,
        )
        self._model = model
        self._cache = cache
        self._block_length = settings.canvas_length or DEFAULT_BLOCK_LENGTH
        self._answers: dict[Row, MaskedAnswer] = {}

    @property
    def cache_bytes(self) -> int:
        """What the keys and values of all rows take now."""
        return sum(cache.nbytes for answer in self._answers.values() for cache in answer.caches.values())

    def admit(self, row: Row) -> None:
        """Note that the row is running."""
        self._answers[row] = MaskedAnswer(row, self._model.mask_token_id, self._block_length)

    def release(self, row: Row) -> None:
        """Forget the row and free its cache."""
        self._answers.pop(row, None)

    @torch.inference_mode()
    def step(self, rows: Sequence[Row]) -> StepResult:
        """Fill some masks in the blocks of all rows; a block that begins beside others may have to wait for its turn."""
        started = time.monotonic()
        batch = MaskedBatch.of(self._whose_turn([self._answers[row] for row in rows]), self._model.device)
        seen = self._look(batch)
        taken = low_confidence.unmask(
            seen.confidence,
            batch.masked,
            length=batch.lengths,
            quota=quota(batch.plan.s.cpu(), batch.lengths),
            accept_threshold=batch.plan.accept_threshold.cpu(),
        )
        result = self._conclude(batch, seen, taken)
        result.passes.append(Pass(PassKind.DENOISE, rows=len(batch.answers), seconds=time.monotonic() - started))
        return result

    def _whose_turn(self, answers: list[MaskedAnswer]) -> list[MaskedAnswer]:
        """Rows that take part in this step, those inside a block first.

        A pass over a whole sequence cannot be cut into chunks as a causal one can. So that long ones hold nobody up
        for long, they take part one after another, in the order of arrival, as far as tokens allow.
        """
        for answer in answers:
            if answer.block is None:
                answer.begin_block()
                answer.row.canvas = Canvas(index=answer.row.blocks)
        inside = [answer for answer in answers if answer.caches]
        beginning = sorted((answer for answer in answers if not answer.caches), key=lambda answer: answer.row.arrived)
        if not inside:
            return beginning
        budget = max(PREFILL_CHUNK, sum(_new_tokens(answer) for answer in inside))
        for answer in beginning:
            if budget <= 0:
                break
            budget -= _new_tokens(answer)
            inside.append(answer)
        return inside

    def _look(self, batch: MaskedBatch) -> Seen:
        """Draw a token for every mask, and say how likely it is."""
        hidden = self._hidden(batch, range(len(batch.answers)), conditional=True)
        unconditional = hidden
        with_guidance = [i for i, settings in enumerate(batch.settings) if settings.guidance_scale > 0]
        if with_guidance:
            unconditional = hidden.clone()
            at = batch.guidance_scale[batch.row_of] > 0
            unconditional[at] = self._hidden(batch, with_guidance, conditional=False)
        # In pieces: the logits of all masks of many rows would be larger than anything else in memory.
        pieces = [slice(start, start + MASK_PREDICTIONS) for start in range(0, len(hidden), MASK_PREDICTIONS)]
        predictions = [self._predict(batch, hidden[at], unconditional[at], at) for at in pieces]
        return Seen.of(batch.masked, torch.cat(predictions).cpu())

    def _predict(
        self, batch: MaskedBatch, hidden: torch.Tensor, unconditional: torch.Tensor, at: slice
    ) -> torch.Tensor:
        """Token, confidence and entropy, float64 [P, 3], of the masks `at`, which have `hidden` [P, d]."""
        row = batch.row_of[at]
        logits = self._logits(hidden, unconditional, guidance_scale=batch.guidance_scale[row])
        logits[:, self._model.mask_token_id] = -torch.inf  # what is decided is text
        prediction = predict(logits[:, None].clone(), batch.plan.temperature[row])  # it overwrites what it gets
        x_0 = sample(prediction, u=batch.u[at, None], top_p=batch.plan.top_p[row], greedy=batch.plan.greedy[row])
        confidence = low_confidence.confidence(logits[:, None], x_0)
        return torch.cat([x_0.double(), confidence.double(), prediction.entropy.double()], dim=1)

    def _logits(
        self, hidden: torch.Tensor, unconditional: torch.Tensor, *, guidance_scale: torch.Tensor
    ) -> torch.Tensor:
        """Logits [P, V] with the guidance of each position, `guidance_scale` [P]."""
        logits = self._model.logits(hidden)
        with_guidance = guidance_scale.nonzero()[:, 0]
        if len(with_guidance) > 0:
            conditional = logits[with_guidance]
            guide(
                conditional,
                self._model.logits(unconditional[with_guidance]),
                guidance_scale=guidance_scale[with_guidance, None],
            )
            logits[with_guidance] = conditional
        return logits

    def _hidden(self, batch: MaskedBatch, rows: Iterable[int], *, conditional: bool) -> torch.Tensor:
        """Hidden states [M, d] that predict the masks of some rows, in their order."""
        rows = list(rows)
        masks = dict(zip(rows, batch.masks_of(rows), strict=True))
        found: dict[int, torch.Tensor] = {}
        cached = [row for row in rows if conditional in batch.answers[row].caches]
        for group in (cached, [row for row in rows if row not in cached]):
            for part in _parts(group, tokens=lambda row: _new_tokens(batch.answers[row])):
                hidden = self._pass([batch.answers[row] for row in part], conditional=conditional)
                found |= {row: states[masks[row]] for row, states in zip(part, hidden, strict=True)}
        return torch.cat([found[row] for row in rows])

    def _pass(self, answers: list[MaskedAnswer], *, conditional: bool) -> torch.Tensor:
        """Hidden states [B, W, d] of the blocks of answers that all have a cache, or all have none yet."""
        sequences = [answer.sequence(conditional=conditional) for answer in answers]
        caches = [answer.caches[conditional] for answer in answers if conditional in answer.caches]
        if caches:
            return self._model.cached_pass(sequences, caches)
        hidden, recorded = self._model.full_pass(sequences, keep=self._cache)
        for answer, cache in zip(answers, recorded, strict=False):  # nothing is recorded without a cache
            answer.caches[conditional] = cache
        return hidden

    def _conclude(self, batch: MaskedBatch, seen: Seen, taken: torch.Tensor) -> StepResult:
        """Fill the masks that were taken, and commit the blocks that are done."""
        result = StepResult(passes=[])
        for i, (answer, canvas) in enumerate(zip(batch.answers, batch.canvases, strict=True)):
            if seen.is_nan[i]:
                result.non_finite.append(answer.row)
                continue
            tokens = {at: int(seen.token_ids[i, at]) for at in taken[i].nonzero()[:, 0].tolist()}
            answer.block = batch.blocks[i].unmasked(tokens)
            steps = canvas.step + 1
            answer.row.canvas = Canvas(index=canvas.index, step=steps, time_index=batch.plan.next_time_index[i])
            committed = answer.block.answer(self.eos_token_ids)
            if committed is not None:
                answer.commit(committed)
                answer.row.canvas = None
                result.commits.append(Commit(answer.row, committed, steps=steps))
            elif answer.row.drafts and drafts.is_due(steps, planned_steps=batch.settings[i].max_denoising_steps):
                guess = answer.block.filled(seen.token_ids[i].tolist())
                result.drafts.append(Draft(answer.row, guess, step=steps))
        return result


def _new_tokens(answer: MaskedAnswer) -> int:
    """How many tokens of the answer's sequence its next pass computes."""
    sequence = answer.sequence(conditional=True)
    cache = answer.caches.get(True)
    return len(sequence.token_ids) if cache is None else len(cache.query)


def _parts(rows: Iterable[int], *, tokens: Callable[[int], int]) -> Iterator[list[int]]:
    """Rows in passes of up to so many tokens, padding included."""
    part: list[int] = []
    longest = 0
    for row in rows:
        longest = max(longest, tokens(row))
        if part and longest * (len(part) + 1) > MASK_PASS_TOKENS:
            yield part
            part, longest = [], tokens(row)
        part.append(row)
    if part:
        yield part
