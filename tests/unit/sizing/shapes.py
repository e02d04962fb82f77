"""Models that people ask about, as config.json and the list of their tensors; weights are never needed.

Values of config.json are those of the published checkpoints. Where a file on the hub could not be read from here, the
note says where the values come from. Tensor shapes follow from the architecture, and add up to the published sizes.
"""

import json
import struct
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from diffusion_worker.inspect.config import read_shape
from diffusion_worker.inspect.facts import ModelFacts
from diffusion_worker.inspect.headers import Tensor
from diffusion_worker.inspect.weights import facts_from_tensors

_BYTES = {"BF16": 2, "F32": 4}


@dataclass(frozen=True)
class KnownShape:
    """A model, and the canvas it is planned with."""

    name: str
    source: str
    config: dict[str, Any]
    shapes: tuple[tuple[str, tuple[int, ...]], ...]
    canvas: int

    @property
    def tensors(self) -> list[Tensor]:
        """Its tensors, in bfloat16."""
        return [a_tensor(name, *shape) for name, shape in self.shapes]

    @property
    def facts(self) -> ModelFacts:
        """What inspection tells of it."""
        return facts_from_tensors(read_shape(self.config), self.tensors)


def a_tensor(name: str, *shape: int, dtype: str = "BF16") -> Tensor:
    """A tensor with the bytes that its shape implies."""
    elements = 1
    for size in shape:
        elements *= size
    return Tensor(name=name, dtype=dtype, shape=shape, stored_bytes=elements * _BYTES[dtype])


def header(tensors: list[Tensor]) -> bytes:
    """The beginning of a safetensors file: length and JSON, without data."""
    entries: dict[str, Any] = {"__metadata__": {"format": "pt"}}
    end = 0
    for tensor in tensors:
        begin, end = end, end + tensor.stored_bytes
        entries[tensor.name] = {"dtype": tensor.dtype, "shape": list(tensor.shape), "data_offsets": [begin, end]}
    text = json.dumps(entries).encode()
    return struct.pack("<Q", len(text)) + text


def write_headers(folder: Path, config: dict[str, Any], tensors: list[Tensor]) -> Path:
    """A folder for planning: config.json and one header without data."""
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "config.json").write_text(json.dumps(config))
    (folder / "model.safetensors").write_bytes(header(tensors))
    return folder


def write_index(folder: Path, config: dict[str, Any], tensors: list[Tensor]) -> Path:
    """A folder for planning: config.json and an index of files that are not there."""
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "config.json").write_text(json.dumps(config))
    index = {
        "metadata": {"total_size": sum(tensor.stored_bytes for tensor in tensors)},
        "weight_map": {tensor.name: "model-00001-of-00002.safetensors" for tensor in tensors},
    }
    (folder / "model.safetensors.index.json").write_text(json.dumps(index))
    return folder


def _diffusion_gemma() -> Iterator[tuple[str, tuple[int, ...]]]:
    d, heads, ff, moe, experts = 2816, 16, 2112, 704, 128
    yield "model.decoder.embed_tokens.weight", (262_144, d)
    for i in range(30):
        layer = f"model.decoder.layers.{i}"
        full = i % 6 == 5
        kv, width = (2, 512) if full else (8, 256)
        yield f"{layer}.experts.gate_up_proj", (experts, 2 * moe, d)
        yield f"{layer}.experts.down_proj", (experts, d, moe)
        yield f"{layer}.router.proj.weight", (experts, d)
        yield f"{layer}.mlp.gate_proj.weight", (ff, d)
        yield f"{layer}.mlp.up_proj.weight", (ff, d)
        yield f"{layer}.mlp.down_proj.weight", (d, ff)
        yield f"{layer}.self_attn.q_proj.weight", (heads * width, d)
        yield f"{layer}.self_attn.k_proj.weight", (kv * width, d)
        if not full:
            yield f"{layer}.self_attn.v_proj.weight", (kv * width, d)
        yield f"{layer}.self_attn.o_proj.weight", (d, heads * width)
        yield f"{layer}.input_layernorm.weight", (d,)
        yield f"model.encoder.language_model.layers.{i}.layer_scalar", (1,)
    yield "model.decoder.self_conditioning.gate_proj.weight", (ff, d)
    yield "model.decoder.self_conditioning.up_proj.weight", (ff, d)
    yield "model.decoder.self_conditioning.down_proj.weight", (d, ff)
    for i in range(27):
        layer = f"model.encoder.vision_tower.encoder.layers.{i}"
        for name in ("q_proj", "k_proj", "v_proj", "o_proj"):
            yield f"{layer}.self_attn.{name}.linear.weight", (1152, 1152)
        yield f"{layer}.mlp.gate_proj.linear.weight", (4304, 1152)
        yield f"{layer}.mlp.up_proj.linear.weight", (4304, 1152)
        yield f"{layer}.mlp.down_proj.linear.weight", (1152, 4304)
    yield "model.encoder.embed_vision.embedding_projection.weight", (d, 1152)


def _llada() -> Iterator[tuple[str, tuple[int, ...]]]:
    d, ff, vocabulary = 4096, 12_288, 126_464
    yield "model.transformer.wte.weight", (vocabulary, d)
    yield "model.transformer.ff_out.weight", (vocabulary, d)
    yield "model.transformer.ln_f.weight", (d,)
    for i in range(32):
        block = f"model.transformer.blocks.{i}"
        for name in ("q_proj", "k_proj", "v_proj", "attn_out"):
            yield f"{block}.{name}.weight", (d, d)
        yield f"{block}.ff_proj.weight", (ff, d)
        yield f"{block}.up_proj.weight", (ff, d)
        yield f"{block}.ff_out.weight", (d, ff)
        yield f"{block}.attn_norm.weight", (d,)
        yield f"{block}.ff_norm.weight", (d,)


def _dense(
    *, d: int, layers: int, heads: int, kv_heads: int, head_dim: int, ff: int, vocabulary: int, tied: bool, bias: bool
) -> Iterator[tuple[str, tuple[int, ...]]]:
    yield "model.embed_tokens.weight", (vocabulary, d)
    if not tied:
        yield "lm_head.weight", (vocabulary, d)
    for i in range(layers):
        attention = f"model.layers.{i}.self_attn"
        for name, rows in (("q_proj", heads), ("k_proj", kv_heads), ("v_proj", kv_heads)):
            yield f"{attention}.{name}.weight", (rows * head_dim, d)
            if bias:
                yield f"{attention}.{name}.bias", (rows * head_dim,)
        yield f"{attention}.o_proj.weight", (d, heads * head_dim)
        yield f"model.layers.{i}.mlp.gate_proj.weight", (ff, d)
        yield f"model.layers.{i}.mlp.up_proj.weight", (ff, d)
        yield f"model.layers.{i}.mlp.down_proj.weight", (d, ff)
        yield f"model.layers.{i}.input_layernorm.weight", (d,)
        yield f"model.layers.{i}.post_attention_layernorm.weight", (d,)
    yield "model.norm.weight", (d,)


def _gemma(kv_heads: int) -> tuple[dict[str, Any], tuple[tuple[str, tuple[int, ...]], ...]]:
    config = {
        "model_type": "gemma",
        "architectures": ["GemmaForCausalLM"],
        "dtype": "bfloat16",
        "hidden_size": 3072,
        "intermediate_size": 24_576,
        "num_hidden_layers": 28,
        "num_attention_heads": 16,
        "num_key_value_heads": kv_heads,
        "head_dim": 256,
        "vocab_size": 256_000,
        "max_position_embeddings": 8192,
    }
    tensors = _dense(
        d=3072,
        layers=28,
        heads=16,
        kv_heads=kv_heads,
        head_dim=256,
        ff=24_576,
        vocabulary=256_000,
        tied=True,
        bias=False,
    )
    return config, tuple(tensors)


DIFFUSION_GEMMA = KnownShape(
    name="DiffusionGemma 26B-A4B",
    source="google/diffusiongemma-26B-A4B-it, config.json as the tests of dotLLM quote it; the vision tower's feed-forward width of "
    "4304 is SigLIP So400m's, which has the same 27 layers of 1152: assumed",
    config={
        "model_type": "diffusion_gemma",
        "architectures": ["DiffusionGemmaForBlockDiffusion"],
        "canvas_length": 256,
        "dtype": "bfloat16",
        "tie_word_embeddings": True,
        "vision_config": {"hidden_size": 1152, "num_hidden_layers": 27},
        "text_config": {
            "model_type": "diffusion_gemma_text",
            "hidden_size": 2816,
            "num_hidden_layers": 30,
            "num_attention_heads": 16,
            "num_key_value_heads": 8,
            "num_global_key_value_heads": 2,
            "head_dim": 256,
            "global_head_dim": 512,
            "intermediate_size": 2112,
            "moe_intermediate_size": 704,
            "num_experts": 128,
            "top_k_experts": 8,
            "vocab_size": 262_144,
            "sliding_window": 1024,
            "layer_types": (["sliding_attention"] * 5 + ["full_attention"]) * 5,
            "max_position_embeddings": 262_144,
            "use_bidirectional_attention": "vision",
        },
    },
    shapes=tuple(_diffusion_gemma()),
    canvas=256,
)
LLADA = KnownShape(
    name="LLaDA-8B",
    source="GSAI-ML/LLaDA-8B-Instruct, config.json as ports of the model check it (d_model 4096, mlp_hidden_size 12288)",
    config={
        "model_type": "llada",
        "architectures": ["LLaDAModelLM"],
        "torch_dtype": "bfloat16",
        "d_model": 4096,
        "n_layers": 32,
        "n_heads": 32,
        "n_kv_heads": 32,
        "mlp_hidden_size": 12_288,
        "mlp_ratio": 4,
        "vocab_size": 126_464,
        "embedding_size": 126_464,
        "max_sequence_length": 4096,
        "mask_token_id": 126_336,
        "weight_tying": False,
    },
    shapes=tuple(_llada()),
    canvas=128,
)
DREAM = KnownShape(
    name="Dream-7B",
    source="Dream-org/Dream-v0-Instruct-7B, config.json as ports of the model quote it: the layout of Qwen2.5-7B",
    config={
        "model_type": "Dream",
        "architectures": ["DreamModel"],
        "torch_dtype": "bfloat16",
        "hidden_size": 3584,
        "intermediate_size": 18_944,
        "num_hidden_layers": 28,
        "num_attention_heads": 28,
        "num_key_value_heads": 4,
        "vocab_size": 152_064,
        "max_position_embeddings": 131_072,
        "sliding_window": None,
        "use_sliding_window": False,
        "tie_word_embeddings": False,
        "mask_token_id": 151_666,
    },
    shapes=tuple(
        _dense(
            d=3584, layers=28, heads=28, kv_heads=4, head_dim=128, ff=18_944, vocabulary=152_064, tied=False, bias=True
        )
    ),
    canvas=128,
)
DENSE_MHA = KnownShape(
    "Dense 7B, MHA", "Gemma 7B: the defaults of GemmaConfig in transformers 5.24", *_gemma(kv_heads=16), canvas=128
)
DENSE_GQA = KnownShape(
    "Dense 7B, GQA", "Gemma 7B with 4 instead of 16 heads for keys and values: made up", *_gemma(kv_heads=4), canvas=128
)
KNOWN = (DIFFUSION_GEMMA, LLADA, DREAM, DENSE_MHA, DENSE_GQA)
