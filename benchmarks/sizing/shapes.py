"""Small random checkpoints whose shapes differ in what takes memory: so small that all of them take a minute of a core."""

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any

import torch
from diffusion_worker.config import EngineKind, SamplerName
from safetensors.torch import save_file
from transformers import (
    Gemma3ForCausalLM,
    Gemma3TextConfig,
    LlamaConfig,
    LlamaForCausalLM,
    Qwen2Config,
    Qwen2ForCausalLM,
)

from benchmarks.make_checkpoint import Shape, make, tokenizer

_POSITIONS = 4096
_MASK = 3
_SLIDING, _FULL = "sliding_attention", "full_attention"


@dataclass(frozen=True)
class Checkpoint:
    """One shape, and the engine that runs it."""

    name: str
    about: str
    save: Callable[[Path], None]
    canvas: int = 64
    kind: EngineKind = EngineKind.DIFFUSION
    samplers: tuple[SamplerName, ...] = ()  # that are tried beside its own, with and without guidance


def _dense(*, kv_heads: int) -> dict[str, Any]:
    return {
        "vocab_size": 1024,
        "hidden_size": 128,
        "intermediate_size": 384,
        "num_hidden_layers": 3,
        "num_attention_heads": 4,
        "num_key_value_heads": kv_heads,
        "max_position_embeddings": _POSITIONS,
        "eos_token_id": None,
        "bos_token_id": None,
    }


def _llama(folder: Path) -> None:
    _save(LlamaForCausalLM(LlamaConfig(**_dense(kv_heads=4))), folder)


def _gemma3(folder: Path) -> None:
    kinds: dict[str, Any] = {"layer_types": [_SLIDING, _SLIDING, _FULL], "sliding_window": 128, "head_dim": 32}
    _save(Gemma3ForCausalLM(Gemma3TextConfig(**_dense(kv_heads=2), **kinds)), folder)


def _save(model: Any, folder: Path) -> None:
    model.save_pretrained(folder)
    tokenizer(model.config.vocab_size).save_pretrained(folder)


_LLADA_NAMES = {
    "model.layers.": "model.transformer.blocks.",
    ".self_attn.o_proj.": ".attn_out.",
    ".self_attn.": ".",
    ".mlp.gate_proj.": ".ff_proj.",
    ".mlp.up_proj.": ".up_proj.",
    ".mlp.down_proj.": ".ff_out.",
    ".input_layernorm.": ".attn_norm.",
    ".post_attention_layernorm.": ".ff_norm.",
    "model.embed_tokens.": "model.transformer.wte.",
    "model.norm.": "model.transformer.ln_f.",
    "lm_head.": "model.transformer.ff_out.",
}


def _llada(folder: Path) -> None:
    shape = _dense(kv_heads=4)
    config = {
        "model_type": "llada",
        "architectures": ["LLaDAModelLM"],
        "d_model": shape["hidden_size"],
        "n_heads": shape["num_attention_heads"],
        "n_kv_heads": shape["num_key_value_heads"],
        "n_layers": shape["num_hidden_layers"],
        "mlp_hidden_size": shape["intermediate_size"],
        "vocab_size": shape["vocab_size"],
        "embedding_size": shape["vocab_size"],
        "max_sequence_length": _POSITIONS,
        "mask_token_id": _MASK,
        "weight_tying": False,
    }
    _save_mask_model(folder, config, LlamaForCausalLM(LlamaConfig(**shape)), _LLADA_NAMES)
    tokenizer(shape["vocab_size"]).save_pretrained(folder)


def _dream(folder: Path) -> None:
    shape = _dense(kv_heads=1)
    fixed = {"model_type": "Dream", "architectures": ["DreamModel"], "hidden_act": "silu", "mask_token_id": _MASK}
    _save_mask_model(folder, shape | fixed, Qwen2ForCausalLM(Qwen2Config(**shape)), {})
    tokenizer(shape["vocab_size"]).save_pretrained(folder)


def _save_mask_model(folder: Path, config: dict[str, Any], model: Any, names: Mapping[str, str]) -> None:
    weights = {}
    for ours, weight in model.state_dict().items():
        theirs = ours
        for old, new in names.items():
            theirs = theirs.replace(old, new)
        weights[theirs] = weight.clone()
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "config.json").write_text(json.dumps(config))
    save_file(weights, folder / "model.safetensors", metadata={"format": "pt"})


def _gemma(**shape: Any) -> Callable[[Path], None]:
    small = Shape(width=128, head_width=32, vocabulary=1024, layer_types=(_SLIDING, _SLIDING, _FULL))
    return partial(make, shape=replace(small, **shape))


CHECKPOINTS = (
    Checkpoint(
        "mixed",
        "two sliding layers and a full one, 4/2 heads, 8 experts",
        _gemma(),
        samplers=(SamplerName.ENTROPY_BOUND, SamplerName.DISCRETE_DDIM, SamplerName.BLOCK_REFINEMENT),
    ),
    Checkpoint(
        "full, MHA",
        "two full layers in which each head has keys of its own",
        _gemma(layer_types=(_FULL,) * 2, global_kv_heads=4),
    ),
    Checkpoint(
        "sliding, many experts",
        "sliding layers of 256 tokens, and 4 of 32 experts for each token",
        _gemma(layer_types=(_SLIDING,) * 3 + (_FULL,), window=256, experts=32, active_experts=4, kv_heads=1),
    ),
    Checkpoint(
        "large vocabulary",
        "8,192 tokens: logits are most of it",
        _gemma(vocabulary=8192),
        samplers=(SamplerName.ENTROPY_BOUND,),
    ),
    Checkpoint(
        "LLaDA", "mask model, each head has keys of its own", _llada, canvas=32, samplers=(SamplerName.LOW_CONFIDENCE,)
    ),
    Checkpoint("Dream", "mask model, four heads share keys", _dream, canvas=32),
    Checkpoint("Gemma 3", "autoregressive, sliding and full", _gemma3, canvas=1, kind=EngineKind.AR),
    Checkpoint("Llama", "autoregressive, MHA", _llama, canvas=1, kind=EngineKind.AR),
)


def prepare(checkpoint: Checkpoint, folder: Path) -> Path:
    """Where it lies below `folder`; made if it is not there."""
    path = folder / checkpoint.name.replace(", ", "-").replace(" ", "-").lower()
    if not (path / "complete").exists():
        torch.manual_seed(0)
        checkpoint.save(path)
        (path / "complete").touch()
    return path
