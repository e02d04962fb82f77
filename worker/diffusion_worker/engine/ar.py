"""Steps of autoregressive rows: prompts into the cache, then one token for every row."""

import time
from collections.abc import Sequence
from dataclasses import dataclass

import torch

from diffusion_worker.engine.observer import Pass, PassKind
from diffusion_worker.engine.row import Row
from diffusion_worker.engine.runner import Commit, Failure, Limits, StepResult, sequence_limit
from diffusion_worker.engine.slots import Slots, in_slot_order, next_chunks, slot_of
from diffusion_worker.models.ar import ARModel
from diffusion_worker.models.cache import KVCache
from diffusion_worker.samplers.categorical import predict, sample
from diffusion_worker.samplers.randomness import Stream, row_key, uniforms

_MIN_TEMPERATURE = 1e-4  # below it logits / temperature may overflow, and the draw is the most likely token anyway


class ARRunner:
    """Runs rows of a causal language model."""

    def __init__(self, model: ARModel, *, max_batch_size: int, max_sequence_length: int | None = None) -> None:
        limit = sequence_limit(max_sequence_length, model.max_sequence_length)
        self.tokenizer = model.tokenizer
        self.eos_token_ids = model.eos_token_ids
        self.limits = Limits(vocab_size=model.vocab_size, max_sequence_length=limit)
        self.max_batch_size = max_batch_size
        self._model = model
        self._slots = Slots(KVCache(max_rows=max_batch_size, max_length=limit))

    def admit(self, row: Row) -> None:
        """Give the row a slot of the cache."""
        self._slots.take(row)

    def release(self, row: Row) -> None:
        """Take the row's slot back."""
        self._slots.free(row)

    def step(self, rows: Sequence[Row]) -> StepResult:
        """One token for each row whose prompt is in the cache, and a chunk of their prompts for the others."""
        rows = in_slot_order(rows)
        groups = {
            PassKind.DECODE: [row for row in rows if len(row.pending) == 1],
            PassKind.ENCODE: [row for row in rows if len(row.pending) > 1],
        }
        # All passes first, then their results: a pass that raises leaves every row as it was.
        done = [self._forward(kind, group) for kind, group in groups.items() if group]
        result = StepResult(passes=[each.record for each in done], commits=[], failures=[])
        for each in done:
            _conclude(each, result)
        return result

    @torch.inference_mode()
    def _forward(self, kind: PassKind, rows: list[Row]) -> "_Forward":
        started = time.monotonic()
        chunks = next_chunks(rows)
        logits = self._model.forward(
            self._slots.cache, [slot_of(row) for row in rows], [row.cached for row in rows], chunks
        )
        tokens = _sample(rows, logits)
        return _Forward(rows, chunks, tokens, Pass(kind, rows=len(rows), seconds=time.monotonic() - started))


@dataclass(frozen=True)
class _Forward:
    rows: list[Row]
    chunks: list[list[int]]
    tokens: list[int | None]  # that follow the chunks; None where the logits were NaN
    record: Pass


def _sample(rows: list[Row], logits: torch.Tensor) -> list[int | None]:
    device = logits.device
    temperatures = [max(_MIN_TEMPERATURE, row.temperature or 1.0) for row in rows]
    prediction = predict(logits[:, None], torch.tensor(temperatures, device=device))
    keys = [row_key(seed=row.seed, canvas=0, step=row.steps, stream=Stream.SAMPLE) for row in rows]
    tokens = sample(
        prediction,
        u=uniforms(torch.tensor(keys, device=device), 1),
        top_p=torch.tensor([row.top_p for row in rows], device=device),
        greedy=torch.tensor([row.temperature == 0 for row in rows], device=device),
    )
    valid = prediction.entropy == prediction.entropy
    return [
        token if is_valid else None for token, is_valid in zip(tokens[:, 0].tolist(), valid[:, 0].tolist(), strict=True)
    ]


def _conclude(done: _Forward, result: StepResult) -> None:
    for row, chunk, token in zip(done.rows, done.chunks, done.tokens, strict=True):
        row.count_cached(len(chunk))
        if row.pending:
            continue  # more of the prompt to come
        if token is None:
            result.failures.append(Failure(row, "the model's predictions are not numbers (NaN) for this request"))
        else:
            row.pending = [token]
            result.commits.append(Commit(row, [token], steps=1))
