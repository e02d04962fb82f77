"""What the loop asks of a model: the only part that differs between diffusion and autoregressive decoding."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Protocol

import torch

from diffusion_worker.engine.observer import Pass
from diffusion_worker.engine.row import Row
from diffusion_worker.engine.scorer import Scorer
from diffusion_worker.models.tokenizer import Tokenizer
from diffusion_worker.samplers.settings import Settings
from diffusion_worker.wire import GenerateRequest, TokenLikelihood


@dataclass(frozen=True)
class Limits:
    """What admission checks a request against."""

    vocab_size: int
    max_sequence_length: int  # prompt and output tokens of one row


class UnsupportedParameterError(Exception):
    """A request asks for what this engine, or this model, cannot do. The message is for the client."""

    def __init__(self, message: str, *, param: str) -> None:
        super().__init__(message)
        self.param = param


@dataclass(frozen=True)
class Commit:
    """Tokens that a row will not change any more."""

    row: Row
    token_ids: list[int]
    steps: int
    converged: bool = True
    logprobs: list[TokenLikelihood] | None = None  # one for each token, if the request asked for them


@dataclass(frozen=True)
class Draft:
    """What a row's canvas would be if it ended now. Only of rows that ask for drafts, and only when one is due."""

    row: Row
    token_ids: list[int]
    step: int  # denoising steps that it has had


@dataclass(frozen=True)
class StepResult:
    """What one step did. A row may be in no list: its canvas is not done yet."""

    passes: list[Pass]
    commits: list[Commit] = field(default_factory=list)
    drafts: list[Draft] = field(default_factory=list)
    non_finite: list[Row] = field(
        default_factory=list
    )  # whose logits were NaN or Inf, while their neighbours' were fine


class Runner(Protocol):
    """Runs steps for rows that hold a slot of its cache."""

    device: torch.device
    weight_bytes: int
    tokenizer: Tokenizer
    limits: Limits
    eos_token_ids: frozenset[int]
    max_batch_size: int

    @property
    def cache_bytes(self) -> int:
        """What the keys and values of all rows take now."""

    @property
    def scorer(self) -> Scorer | None:
        """None: this model cannot tell how likely a text is."""

    def settings_for(self, request: GenerateRequest) -> Settings | None:
        """How the canvases of the row will be denoised; None for a runner without canvases.

        Raises UnsupportedParameterError for anything in the request that cannot be honoured. Called from the submitting
        thread.
        """

    def admit(self, row: Row) -> None:
        """Give the row a slot of the cache. The loop never admits more than `max_batch_size`."""

    def release(self, row: Row) -> None:
        """Take the row's slot back. Safe to call for a row without one."""

    def step(self, rows: Sequence[Row]) -> StepResult:
        """Move every row on by one step.

        May raise: then each row is as it was before, or a whole pass further, so that the loop can try again with
        fewer rows.
        """
