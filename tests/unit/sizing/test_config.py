"""From config.json to the shape of a model."""

from typing import Any

import pytest
from diffusion_worker.inspect.config import Shape, read_shape
from diffusion_worker.inspect.errors import InspectError
from diffusion_worker.inspect.facts import Experts, Family, LayerGroup, LayerKind

from tests.unit.sizing.shapes import DIFFUSION_GEMMA, DREAM, LLADA

LLAMA: dict[str, Any] = {
    "model_type": "llama",
    "architectures": ["LlamaForCausalLM"],
    "hidden_size": 64,
    "intermediate_size": 128,
    "num_hidden_layers": 4,
    "num_attention_heads": 8,
    "vocab_size": 1000,
    "max_position_embeddings": 512,
}


def llama(**fields: Any) -> Shape:
    return read_shape(LLAMA | fields)


def kinds(shape: Shape) -> dict[LayerKind, int]:
    return {group.kind: group.layers for group in shape.layers}


def test_diffusion_gemma_has_sliding_and_full_layers_of_different_heads() -> None:
    shape = read_shape(DIFFUSION_GEMMA.config)
    assert shape.family is Family.BLOCK_DIFFUSION
    assert shape.layers == (
        LayerGroup(kind=LayerKind.SLIDING, layers=25, window=1024, heads=16, kv_heads=8, head_dim=256, kv_layers=25),
        LayerGroup(kind=LayerKind.FULL, layers=5, heads=16, kv_heads=2, head_dim=512, kv_layers=5),
    )
    assert shape.experts == Experts(total=128, active=8, intermediate_size=704)
    assert (shape.canvas_length, shape.vocab_size, shape.max_positions) == (256, 262_144, 262_144)
    assert shape.self_conditioning
    assert shape.shared_kv_projection
    assert shape.dtype == "bfloat16"


def test_diffusion_gemma_without_optional_fields_has_transformers_defaults() -> None:
    text = {
        key: value
        for key, value in DIFFUSION_GEMMA.config["text_config"].items()
        if key not in {"layer_types", "global_head_dim"}
    }
    config = {key: value for key, value in DIFFUSION_GEMMA.config.items() if key != "canvas_length"}
    assert read_shape(config | {"text_config": text}) == read_shape(DIFFUSION_GEMMA.config)


def test_the_real_configuration_class_agrees() -> None:
    """transformers' own reading of the same file; its import costs seconds, so it is done once."""
    from transformers import DiffusionGemmaConfig

    theirs = DiffusionGemmaConfig.from_dict(DIFFUSION_GEMMA.config)
    text = theirs.text_config
    ours = read_shape(DIFFUSION_GEMMA.config)
    assert ours.kv_widths == tuple(
        text.per_layer_config[i].num_key_value_heads * text.per_layer_config[i].head_dim
        for i in range(text.num_hidden_layers)
    )
    assert (ours.canvas_length, ours.max_positions) == (theirs.canvas_length, text.max_position_embeddings)


def test_masked_diffusion_models_are_told_from_autoregressive_ones() -> None:
    assert read_shape(LLADA.config).family is Family.MASKED_DIFFUSION
    assert read_shape(DREAM.config).family is Family.MASKED_DIFFUSION
    assert llama().family is Family.AUTOREGRESSIVE


def test_lladas_own_names_are_read() -> None:
    shape = read_shape(LLADA.config)
    assert (shape.hidden_size, shape.intermediate_size, shape.max_positions) == (4096, 12_288, 4096)
    assert shape.layers == (
        LayerGroup(kind=LayerKind.FULL, layers=32, heads=32, kv_heads=32, head_dim=128, kv_layers=32),
    )


def test_without_heads_for_keys_every_head_has_its_own() -> None:
    assert llama().layers[0].kv_heads == 8
    assert llama().layers[0].head_dim == 8


@pytest.mark.parametrize(
    ("fields", "expected"),
    [
        ({}, {LayerKind.FULL: 4}),
        ({"sliding_window": 32}, {LayerKind.SLIDING: 4}),  # Mistral
        ({"sliding_window": 32, "use_sliding_window": False}, {LayerKind.FULL: 4}),  # Qwen 2
        (
            {"sliding_window": 32, "use_sliding_window": True},
            {LayerKind.FULL: 4},
        ),  # its upper layers slide: an upper bound
        ({"sliding_window": 32, "sliding_window_pattern": 4}, {LayerKind.SLIDING: 3, LayerKind.FULL: 1}),
        ({"sliding_window": 32, "model_type": "gemma2"}, {LayerKind.SLIDING: 2, LayerKind.FULL: 2}),
        (
            {"sliding_window": 32, "layer_types": ["full_attention"] + ["sliding_attention"] * 3},
            {LayerKind.SLIDING: 3, LayerKind.FULL: 1},
        ),
    ],
)
def test_which_layers_slide(fields: dict[str, Any], expected: dict[LayerKind, int]) -> None:
    assert kinds(llama(**fields)) == expected


def test_layers_that_share_the_cache_of_earlier_ones_have_none_of_their_own() -> None:
    (group,) = llama(num_kv_shared_layers=3).layers
    assert (group.layers, group.kv_layers) == (4, 1)


def test_single_layers_may_have_heads_of_their_own() -> None:
    shape = llama(per_layer_config={"3": {"num_key_value_heads": 2, "head_dim": 16}})
    assert shape.kv_widths == (64, 64, 64, 32)


def test_the_window_of_models_that_look_both_ways_is_halved() -> None:
    (group,) = llama(sliding_window=32, use_bidirectional_attention="all").layers
    assert group.window == 17


def test_a_vocabulary_that_is_padded_counts_with_its_padding() -> None:
    assert llama(embedding_size=1024).vocab_size == 1024


def test_fields_that_nobody_knows_are_reported_and_few() -> None:
    shape = llama(rope_theta=1e4, memory_bank_size=7, **{f"strange_{i:03}": 1 for i in range(40)})
    assert shape.unknown_fields[0] == "memory_bank_size"
    assert len(shape.unknown_fields) == 16


@pytest.mark.parametrize(
    ("fields", "words"),
    [
        ({"model_type": None}, "has no model_type"),
        ({"model_type": "vit", "vocab_size": None}, "has no vocab_size: it does not describe a language model"),
        ({"model_type": "t5", "is_encoder_decoder": True}, "is an encoder-decoder model"),
        ({"model_type": "deepseek_v3", "kv_lora_rank": 512}, "compresses its cache"),
        ({"layer_types": ["linear_attention"] * 4}, "layers of type linear_attention are not known"),
        ({"layer_types": ["full_attention"] * 3}, "lists 3 layers, num_hidden_layers says 4"),
        ({"text_config": "llama"}, "text_config is 'llama', not an object"),
        ({"quantization_config": "gptq"}, "quantization_config is 'gptq', not an object"),
        ({"per_layer_config": [1]}, r"per_layer_config is \[1\], not an object"),
        ({"per_layer_config": {"3": 5}}, "per_layer_config of layer 3 is 5, not an object"),
        ({"per_layer_config": {"3": {"head_dim": -1}}}, "head_dim of layer 3 is -1, not a whole number above 0"),
        ({"layer_types": 4}, "layer_types is 4, not a list"),
        ({"num_hidden_layers": 10**9}, "num_hidden_layers is 1000000000; models have at most"),
        ({"num_attention_heads": 10**9}, "head_dim of layer 0 is 0, not a whole number above 0"),
        ({"canvas_length": 0}, "a canvas has at least one token"),
        ({"hidden_size": "large"}, "hidden_size is 'large', not a whole number"),
        ({"num_experts": 8}, "has no top_k_experts or num_experts_per_tok"),
        ({"num_experts": 2, "num_experts_per_tok": 4}, "4 of 2 experts"),
    ],
)
def test_what_is_no_language_model_known_here_is_refused(fields: dict[str, Any], words: str) -> None:
    with pytest.raises(InspectError, match=words):
        llama(**fields)
