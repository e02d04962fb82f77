"""Autoregressive models of transformers, batched over rows of different lengths with our cache."""

from collections.abc import Sequence
from typing import Any

import torch
from transformers import AutoModelForCausalLM

from diffusion_worker.models.batch import TokenBatch
from diffusion_worker.models.cache import KVCache
from diffusion_worker.models.checkpoint import Checkpoint, eos_token_ids, load_weights
from diffusion_worker.models.errors import UnsupportedCheckpointError
from diffusion_worker.models.masks import causal_mask
from diffusion_worker.models.memory import module_bytes
from diffusion_worker.models.tokenizer import Tokenizer, load_tokenizer

_FULL, _SLIDING = "full_attention", "sliding_attention"
_TOLERANCE = 0.05  # of the largest logit; rounding in bfloat16 stays well below, a wrong mask or position far above


class ARModel:
    """A causal language model, such as Llama, Qwen, Mistral or Gemma 3."""

    def __init__(self, model: Any, tokenizer: Tokenizer) -> None:
        text = model.config.get_text_config()
        self.tokenizer = tokenizer
        self.vocab_size: int = text.vocab_size
        self.max_sequence_length: int = text.max_position_embeddings
        self.eos_token_ids = eos_token_ids(model)
        self.device: torch.device = model.device
        self.weight_bytes = module_bytes(model)
        self._model = model
        self._window: int | None = getattr(text, "sliding_window", None)
        self._layer_types: frozenset[str] | None = (
            frozenset(text.layer_types) if getattr(text, "layer_types", None) is not None else None
        )

    @torch.inference_mode()
    def forward(
        self, cache: KVCache, slots: Sequence[int], lengths: Sequence[int], token_ids: list[list[int]]
    ) -> torch.Tensor:
        """Write new tokens into the cache; returns the logits [B, V] float32 that follow each row's last one."""
        return self.forward_last(cache, slots, lengths, token_ids, keep=1)[:, -1]

    @torch.inference_mode()
    def forward_last(
        self, cache: KVCache, slots: Sequence[int], lengths: Sequence[int], token_ids: list[list[int]], *, keep: int
    ) -> torch.Tensor:
        """The same, with the logits [B, keep, V] that follow each row's last `keep` tokens.

        A row of fewer new tokens has others' logits in front of its own: look at its last ones only.
        """
        batch = TokenBatch.of(token_ids, lengths, self.device)
        view = cache.view(slots, lengths)
        view.expect(batch.valid, batch.positions)
        output = self._model(
            input_ids=batch.token_ids,
            attention_mask=self._masks(batch.positions, view.kv_length),
            position_ids=batch.positions,
            cache=view,
            use_cache=True,
            logits_to_keep=keep,
        )
        logits: torch.Tensor = output.logits[:, -keep:].to(torch.float32)
        return logits

    def _masks(self, positions: torch.Tensor, kv_length: int) -> torch.Tensor | dict[str, torch.Tensor]:
        """In the form that the architecture takes: one mask, or one for each type of its layers."""
        if self._layer_types is None:
            return causal_mask(positions, kv_length, self._window)
        windows = {_FULL: None, _SLIDING: self._window}
        return {kind: causal_mask(positions, kv_length, windows[kind]) for kind in self._layer_types | {_FULL}}

    @torch.inference_mode()
    def verify(self) -> None:
        """Compare a batch of two prompts of different length with the model's own forward pass on each.

        There are hundreds of architectures behind AutoModelForCausalLM, and one that ignored our masks or positions
        would answer nonsense without any error. UnsupportedCheckpointError tells instead.
        """
        prompts = [[i % self.vocab_size for i in range(1, n)] for n in (12, 5)]
        cache = KVCache(max_rows=2, max_length=16)
        slots = [cache.take_slot() for _ in prompts]
        self.forward(cache, slots, [0, 0], [prompt[:-1] for prompt in prompts])
        ours = self.forward(cache, slots, [len(p) - 1 for p in prompts], [prompt[-1:] for prompt in prompts])
        for row, prompt in zip(ours, prompts, strict=True):
            reference = self._model(input_ids=torch.tensor([prompt], device=self.device)).logits[0, -1].float()
            if not (row - reference).abs().max() <= _TOLERANCE * reference.abs().max().clamp(min=1.0):
                raise UnsupportedCheckpointError(
                    f"{type(self._model).__name__} does not take masks and positions per row as this engine gives them"
                )


def load_ar_model(checkpoint: Checkpoint) -> ARModel:
    """Load a causal language model; UnsupportedCheckpointError when it is none, or none that we can batch."""
    if not any(name.endswith("ForCausalLM") for name in checkpoint.architectures):
        kind = ", ".join(checkpoint.architectures) or checkpoint.model_type or "unknown"
        raise UnsupportedCheckpointError(
            f"{checkpoint.folder} holds {kind}; the autoregressive engine serves …ForCausalLM models only"
        )
    tokenizer = load_tokenizer(checkpoint.folder)
    model = load_weights(checkpoint, AutoModelForCausalLM)
    strange = set(getattr(model.config.get_text_config(), "layer_types", None) or ()) - {_FULL, _SLIDING}
    if strange:
        raise UnsupportedCheckpointError(
            f"{checkpoint.folder} has layers of type {', '.join(sorted(strange))}; the engine knows full and sliding "
            "attention"
        )
    ar_model = ARModel(model, tokenizer)
    ar_model.verify()
    return ar_model
