"""Steps of autoregressive rows: prompts into the cache, then one token for every row."""

import time
from collections.abc import Sequence
from dataclasses import dataclass

import torch

from diffusion_worker.engine.base import BaseRunner
from diffusion_worker.engine.observer import Pass, PassKind
from diffusion_worker.engine.row import Row
from diffusion_worker.engine.runner import Commit, StepResult, UnsupportedParameterError
from diffusion_worker.engine.scorer import Scorer
from diffusion_worker.engine.slots import Slots, in_slot_order, prefill_chunks, slot_of
from diffusion_worker.models.ar import ARModel
from diffusion_worker.models.cache import KVCache
from diffusion_worker.models.token_bytes import TokenBytes
from diffusion_worker.samplers.categorical import MIN_TEMPERATURE, predict, sample
from diffusion_worker.samplers.logprobs import log_probs
from diffusion_worker.samplers.penalties import shift_logits
from diffusion_worker.samplers.randomness import Stream, row_key, uniforms
from diffusion_worker.wire import GenerateRequest, Likelihood, TokenLikelihood


class ARRunner(BaseRunner):
    """Runs rows of a causal language model."""

    def __init__(self, model: ARModel, *, max_batch_size: int, max_sequence_length: int | None = None) -> None:
        super().__init__(model, max_batch_size=max_batch_size, max_sequence_length=max_sequence_length)
        self._model = model
        self._slots = Slots(KVCache(max_rows=max_batch_size, max_length=self.limits.max_sequence_length))
        self.scorer = Scorer(model, max_rows=max_batch_size, max_length=self.limits.max_sequence_length)
        self._token_bytes = TokenBytes(model.tokenizer)

    def settings_for(self, request: GenerateRequest) -> None:
        """Refuse a bias of a token that the model does not have. What is said about canvases is for another arm."""
        unknown = [token_id for token_id in request.logit_bias if token_id >= self.limits.vocab_size]
        if unknown:
            raise UnsupportedParameterError(
                f"logit_bias has token {unknown[0]}, but this model's token ids are 0 to {self.limits.vocab_size - 1}",
                param="logit_bias",
            )

    @property
    def cache_bytes(self) -> int:
        """What the keys and values of all rows take now."""
        return self._slots.cache.nbytes

    def admit(self, row: Row) -> None:
        """Give the row a slot of the cache."""
        self._slots.take(row)
        self._slots.cache.expect_at_most(slot_of(row), len(row.prompt_token_ids) + row.max_tokens)

    def release(self, row: Row) -> None:
        """Take the row's slot back."""
        self._slots.free(row)

    def step(self, rows: Sequence[Row]) -> StepResult:
        """One token for each row whose prompt is in the cache, and a chunk of their prompts for the others."""
        chunks = prefill_chunks(in_slot_order(rows), step_tokens=1, padded=True)
        groups = {
            PassKind.DECODE: [(row, chunk) for row, chunk in chunks if len(row.pending) == 1],
            PassKind.ENCODE: [(row, chunk) for row, chunk in chunks if len(row.pending) > 1],
        }
        # All passes first, then their results: a pass that raises leaves every row as it was.
        done = [self._forward(kind, group) for kind, group in groups.items() if group]
        result = StepResult(passes=[each.record for each in done])
        for each in done:
            _conclude(each, result)
        return result

    @torch.inference_mode()
    def _forward(self, kind: PassKind, group: list[tuple[Row, list[int]]]) -> "_Forward":
        started = time.monotonic()
        rows, chunks = [row for row, _ in group], [chunk for _, chunk in group]
        logits = self._model.forward(
            self._slots.cache, [slot_of(row) for row in rows], [row.cached for row in rows], chunks
        )
        asking = [i for i, row in enumerate(rows) if row.logprobs is not None]
        predicted = logits[asking]  # a copy: shifts change the logits
        shifts = [None if row.shifts is None else row.shifts.now for row in rows]
        tokens = _sample(rows, shift_logits(logits, shifts))
        logprobs = self._likelihoods(predicted, {i: (tokens[i], rows[i].logprobs or 0) for i in asking})
        done = Pass(kind, rows=len(rows), seconds=time.monotonic() - started)
        return _Forward(rows, chunks, tokens, logprobs, done)

    def _likelihoods(
        self, logits: torch.Tensor, wanted: "dict[int, tuple[int | None, int]]"
    ) -> dict[int, TokenLikelihood]:
        """Of a drawn token and so many most likely ones, by row; row j of `logits` belongs to the j-th of `wanted`."""
        if not wanted:
            return {}
        drawn = torch.tensor([token or 0 for token, _ in wanted.values()], device=logits.device)
        found = log_probs(logits, drawn, top=max(top for _, top in wanted.values()))
        each = zip(
            wanted.items(), found.of_token.tolist(), found.top.tolist(), found.top_token_ids.tolist(), strict=True
        )
        return {
            i: TokenLikelihood(
                utf8=list(self._token_bytes.of(token)),
                logprob=logprob,
                top=[
                    Likelihood(utf8=list(self._token_bytes.of(top_id)), logprob=top_logprob)
                    for top_id, top_logprob in zip(top_ids[:top], top_logprobs[:top], strict=True)
                ],
            )
            for (i, (token, top)), logprob, top_logprobs, top_ids in each
            if token is not None
        }


@dataclass(frozen=True)
class _Forward:
    rows: list[Row]
    chunks: list[list[int]]
    tokens: list[int | None]  # that follow the chunks; None where the logits were not finite
    logprobs: dict[int, TokenLikelihood]  # of those tokens, by index of the row, for rows that ask for them
    record: Pass


def _sample(rows: list[Row], logits: torch.Tensor) -> list[int | None]:
    device = logits.device
    temperatures = [max(MIN_TEMPERATURE, row.temperature or 1.0) for row in rows]
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
    for i, (row, chunk, token) in enumerate(zip(done.rows, done.chunks, done.tokens, strict=True)):
        row.count_cached(len(chunk))
        if row.pending:
            continue  # more of the prompt to come
        if token is None:
            result.non_finite.append(row)
        else:
            row.pending = [token]
            if row.shifts is not None:
                row.shifts.count(token)
            logprobs = [done.logprobs[i]] if i in done.logprobs else None
            result.commits.append(Commit(row, [token], steps=1, logprobs=logprobs))
