"""Small random checkpoints whose shapes differ in what takes memory."""

import json
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import torch
from diffusion_worker.config import EngineKind
from safetensors.torch import save_file
from transformers import Gemma3ForCausalLM, Gemma3TextConfig, LlamaConfig, LlamaForCausalLM, Qwen2Config, Qwen2ForCausalLM

from benchmarks.make_checkpoint import Shape, make, save_tokenizer

_POSITIONS = 4096
_MASK = 3


@dataclass(frozen=True)
class Checkpoint:
    """One shape, and the engine that runs it."""

    name: str
    about: str
    kind: EngineKind
    save: Callable[[Path], None]
    canvas: int


def _gemma3(folder: Path) -> None:
    torch.manual_seed(0)
    model = Gemma3ForCausalLM(
        Gemma3TextConfig(
            vocab_size=4096,
            hidden_size=256,
            intermediate_size=768,
            num_hidden_layers=6,
            layer_types=["sliding_attention"] * 5 + ["full_attention"],
            num_attention_heads=4,
            num_key_value_heads=2,
            head_dim=64,
            sliding_window=128,
            max_position_embeddings=_POSITIONS,
            eos_token_id=None,
        )
    )
    _save(model, folder)


def _llama(folder: Path) -> None:
    torch.manual_seed(0)
    config = LlamaConfig(**_dense(heads=4, kv_heads=4), eos_token_id=None)
    _save(LlamaForCausalLM(config), folder)


def _dense(*, heads: int, kv_heads: int) -> dict[str, Any]:
    return {
        "vocab_size": 4096,
        "hidden_size": 256,
        "intermediate_size": 768,
        "num_hidden_layers": 6,
        "num_attention_heads": heads,
        "num_key_value_heads": kv_heads,
        "max_position_embeddings": _POSITIONS,
    }


def _save(model: Any, folder: Path) -> None:
    model.save_pretrained(folder)
    save_tokenizer(folder, model.config.vocab_size)


_LLADA_NAMES = {
    "self_attn.q_proj": "q_proj",
    "self_attn.k_proj": "k_proj",
    "self_attn.v_proj": "v_proj",
    "self_attn.o_proj": "attn_out",
    "mlp.gate_proj": "ff_proj",
    "mlp.up_proj": "up_proj",
    "mlp.down_proj": "ff_out",
    "input_layernorm": "attn_norm",
    "post_attention_layernorm": "ff_norm",
}


def _llada(folder: Path) -> None:
    """All heads have keys of their own."""
    torch.manual_seed(0)
    shape = _dense(heads=4, kv_heads=4)
    weights = {}
    for name, weight in LlamaForCausalLM(LlamaConfig(**shape)).state_dict().items():
        _, *_, layer, part, kind = ("", "", *name.rsplit(".", 3)) if "layers" not in name else ("", *_parts(name))
        weights[_llada_name(name, layer, part, kind)] = weight
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
    _save_mask_model(folder, config, weights)
