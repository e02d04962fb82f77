"""How likely an autoregressive model finds given texts: passes over prompt and completion, in chunks."""

import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cached_property

import torch

from diffusion_worker.engine.observer import Pass, PassKind
from diffusion_worker.engine.row import EmitScore
from diffusion_worker.log_lines import request_fields
from diffusion_worker.models.ar import ARModel
from diffusion_worker.models.cache import KVCache
from diffusion_worker.sizing.costs import SCORED_LOGITS, SCORED_ROWS


@dataclass(eq=False)
class ScoreRow:
    """A text to score. Owned by the engine's thread; only `cancelled` is written from outside."""

    request_id: str
    prompt_token_ids: list[int]
    completion_token_ids: list[int]
    include_eos: bool
    text_bytes: int
    emit: EmitScore
    arrived: float = field(default_factory=time.monotonic)
    cancelled: bool = False

    traceparent: str | None = None  # of the trace that the request is part of
    cached: int = 0  # tokens whose keys and values are in the cache
    nll: float = 0.0  # nats, of the completion's tokens so far

    @cached_property
    def inputs(self) -> list[int]:
        """The tokens that the model sees: nothing follows the last one, unless the end of the answer does."""
        token_ids = [*self.prompt_token_ids, *self.completion_token_ids]
        return token_ids if self.include_eos else token_ids[:-1]

    @property
    def log_fields(self) -> dict[str, str]:
        """What names the request in a log line."""
        return request_fields(self.request_id, self.traceparent)

    @property
    def tokens(self) -> int:
        """Tokens that are scored."""
        return len(self.completion_token_ids) + self.include_eos

    def restart(self) -> None:
        """Forget what was done: its keys and values are gone."""
        self.cached = 0
        self.nll = 0.0


class Scorer:
    """Scores one batch of rows at a time, in a cache of its own: a busy engine may have no slot to spare."""

    def __init__(self, model: ARModel, *, max_rows: int, max_length: int) -> None:
        self.max_rows = min(SCORED_ROWS, max_rows)
        self._model = model
        self._cache = KVCache(max_rows=self.max_rows, max_length=max_length)
        self._logits_tokens = max(1, SCORED_LOGITS // model.vocab_size)
        self._eos = torch.tensor(sorted(model.eos_token_ids), dtype=torch.int64, device=model.device)
        self._rows: list[ScoreRow] = []  # at the index of their slot, longest first: those that are done are at the end

    @property
    def rows_held(self) -> int:
        """Rows that take memory: all of a batch, until its last one is done."""
        return len(self._rows)

    @property
    def cache_bytes(self) -> int:
        """What their keys and values take now."""
        return self._cache.nbytes

    def begin(self, rows: Sequence[ScoreRow]) -> None:
        """Take a batch of at most `max_rows` rows in."""
        self._rows = sorted(rows, key=lambda row: len(row.inputs), reverse=True)
        for row in self._rows:
            self._cache.expect_at_most(self._cache.take_slot(), len(row.inputs))

    def end(self) -> None:
        """Give the slots back, whatever has been done. What is not done has to start again."""
        for slot in reversed(range(len(self._rows))):
            self._cache.free_slot(slot)
        for row in self._rows:
            row.restart()
        self._rows = []

    @torch.inference_mode()
    def step(self, *, tokens: int) -> tuple[list[ScoreRow], Pass]:
        """One pass over a chunk of each row, up to so many `tokens` in all; returns the rows that it completed.

        NaN logits show in their `nll`.
        """
        started = time.monotonic()
        rows = [row for row in self._rows if row.cached < len(row.inputs)]
        size = max(1, min(tokens, self._logits_tokens) // len(rows))
        chunks = [row.inputs[row.cached : row.cached + size] for row in rows]
        # Position i predicts token i + 1, so the last token of the prompt is the first that counts.
        counted = [
            len(chunk) - max(0, min(len(chunk), len(row.prompt_token_ids) - 1 - row.cached))
            for row, chunk in zip(rows, chunks, strict=True)
        ]
        logits = self._model.forward_last(
            self._cache, range(len(rows)), [row.cached for row in rows], chunks, keep=max(1, *counted)
        )
        for i, (row, chunk) in enumerate(zip(rows, chunks, strict=True)):
            if counted[i]:
                row.nll += self._nll(row, logits[i, -counted[i] :], end=row.cached + len(chunk))
        for row, chunk in zip(rows, chunks, strict=True):
            row.cached += len(chunk)
        done = [row for row in rows if row.cached == len(row.inputs)]
        return done, Pass(PassKind.SCORE, rows=len(rows), seconds=time.monotonic() - started)

    def _nll(self, row: ScoreRow, logits: torch.Tensor, *, end: int) -> float:
        """-Σ ln p of the tokens that follow `logits` [n, V], the last of which is at position `end` of the row."""
        first = end + 1 - len(logits) - len(row.prompt_token_ids)
        targets = row.completion_token_ids[first : first + len(logits)]
        log_p = logits[range(len(targets)), targets].double()
        nll = logits.logsumexp(dim=-1).double().sum() - log_p.sum()
        if len(targets) < len(logits):  # the answer ends after the last one, by whichever of the model's end tokens
            nll -= logits[-1, self._eos].logsumexp(dim=-1).double()
        return float(nll)
