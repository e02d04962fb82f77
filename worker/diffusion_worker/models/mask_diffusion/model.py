"""Forward passes of mask models over rows of different lengths and blocks."""

from collections.abc import Sequence
from typing import Any

import torch

from diffusion_worker.config import MaskCache
from diffusion_worker.models.checkpoint import Checkpoint, eos_token_ids, load_weights
from diffusion_worker.models.mask_diffusion.architectures import Architecture, architecture_of
from diffusion_worker.models.mask_diffusion.cache import BlockCache, RecordingCache, ReplayingCache
from diffusion_worker.models.mask_diffusion.sequence import MaskedSequence
from diffusion_worker.models.memory import module_bytes
from diffusion_worker.models.tokenizer import Tokenizer, load_tokenizer


class MaskModel:
    """A LLaDA or Dream checkpoint.

    A pass returns hidden states of the positions that predict the block, [B, W, d] with W the longest block; `logits`
    makes predictions of those that are wanted: the vocabulary is large, and late in a block few positions are masked.
    """

    def __init__(self, model: Any, tokenizer: Tokenizer, architecture: Architecture) -> None:
        self.tokenizer = tokenizer
        self.vocab_size: int = model.config.vocab_size
        self.max_sequence_length: int = model.config.max_position_embeddings
        self.mask_token_id = architecture.mask_token_id
        self.eos_token_ids = eos_token_ids(model) | _turn_end(tokenizer, architecture.turn_end)
        self.device: torch.device = model.device
        self._shift = architecture.shift
        self.weight_bytes = module_bytes(model)
        self._model = model.model
        self._lm_head = model.lm_head

    @torch.inference_mode()
    def full_pass(
        self, sequences: Sequence[MaskedSequence], *, keep: MaskCache
    ) -> tuple[torch.Tensor, list[BlockCache]]:
        """Compute everything; leave a cache for the next passes over the same blocks, unless `keep` is none."""
        lengths = [len(sequence.token_ids) for sequence in sequences]
        begins = [sequence.start - self._shift for sequence in sequences]
        recording = None
        if keep is not MaskCache.NONE:
            queries = [
                range(begin, sequence.end if keep is MaskCache.DUAL else length)
                for begin, sequence, length in zip(begins, sequences, lengths, strict=True)
            ]
            recording = RecordingCache(lengths, queries, layers=len(self._model.layers))
        hidden = self._hidden(
            [sequence.token_ids for sequence in sequences],
            first_position=[0] * len(sequences),
            cached=None,
            cache=recording,
        )
        width = max(sequence.end - sequence.start for sequence in sequences)
        at = torch.tensor(begins, device=self.device)[:, None] + torch.arange(width, device=self.device)
        at = at.clamp(max=hidden.shape[1] - 1)
        block = hidden.gather(1, at[..., None].expand(-1, -1, hidden.shape[-1]))
        return block, [] if recording is None else recording.finished()

    @torch.inference_mode()
    def cached_pass(self, sequences: Sequence[MaskedSequence], caches: Sequence[BlockCache]) -> torch.Tensor:
        """Compute the positions that the `caches` leave out; what these hold is of the block's first step."""
        hidden = self._hidden(
            [
                sequence.token_ids[cache.query.start : cache.query.stop]
                for sequence, cache in zip(sequences, caches, strict=True)
            ],
            first_position=[cache.query.start for cache in caches],
            cached=[cache.length for cache in caches],
            cache=ReplayingCache(caches),
        )
        return hidden[:, : max(sequence.end - sequence.start for sequence in sequences)]

    @torch.inference_mode()
    def logits(self, hidden: torch.Tensor) -> torch.Tensor:
        """Logits [M, V] float32 of some positions' hidden states [M, d]."""
        logits: torch.Tensor = self._lm_head(hidden).to(torch.float32)
        return logits

    def _hidden(
        self,
        token_ids: list[list[int]],
        *,
        first_position: list[int],
        cached: list[int] | None,
        cache: RecordingCache | ReplayingCache | None,
    ) -> torch.Tensor:
        """Hidden states [B, Q, d] of new tokens, padded on the right; padding is no key to anybody."""
        widths = [len(ids) for ids in token_ids]
        padded = torch.tensor([ids + [0] * (max(widths) - len(ids)) for ids in token_ids], device=self.device)
        first = torch.tensor(first_position, device=self.device)[:, None]
        positions = first + torch.arange(max(widths), device=self.device)
        visible = self._within(widths)
        if cached is not None:
            visible = torch.cat([self._within(cached), visible], dim=1)
        hidden = self._model.embed_tokens(padded)
        rotary = self._model.rotary_emb(hidden, positions)
        for layer in self._model.layers:
            hidden = layer(hidden, attention_mask=visible[:, None, None, :], position_embeddings=rotary, cache=cache)
        normed: torch.Tensor = self._model.norm(hidden)
        return normed

    def _within(self, lengths: list[int]) -> torch.Tensor:
        """Bool [B, longest]: False where a row is padding."""
        return torch.arange(max(lengths), device=self.device) < torch.tensor(lengths, device=self.device)[:, None]


def load_mask_model(checkpoint: Checkpoint) -> MaskModel:
    """Load a LLaDA or Dream checkpoint; CheckpointError when it cannot be served."""
    architecture = architecture_of(checkpoint)
    tokenizer = load_tokenizer(checkpoint.folder, architecture.tokenizer_class)
    model = load_weights(
        checkpoint,
        architecture.model_class,
        config=architecture.config,
        names=architecture.names,
        name_in_checkpoint=architecture.name_in_checkpoint,
    )
    return MaskModel(model, tokenizer, architecture)


def _turn_end(tokenizer: Tokenizer, token: str) -> frozenset[int]:
    """The token's id, if the tokenizer has such a token."""
    last = tokenizer.encode(token)[-1:]
    return frozenset(token_id for token_id in last if tokenizer.piece(token_id) == token)
