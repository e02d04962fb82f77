"""The two architectures, untrained."""

import torch
from transformers import (
    DiffusionGemmaConfig,
    DiffusionGemmaForBlockDiffusion,
    DiffusionGemmaTextConfig,
    Gemma4VisionConfig,
    LlamaConfig,
    LlamaForCausalLM,
)
from transformers.models.diffusion_gemma.generation_diffusion_gemma import EntropyBoundSamplerConfig

from examples.train.tokenizer import BOS, EOS, IMAGE, IMAGE_BEGIN, IMAGE_END, PAD, VOCABULARY_LIMIT

CANVAS, WINDOW = 64, 128
MAX_POSITIONS = 4096
HEAD_DIM, GLOBAL_HEAD_DIM, GLOBAL_KEY_VALUE_HEADS = 64, 128, 2
_TOKENS = {"vocab_size": VOCABULARY_LIMIT, "pad_token_id": PAD, "eos_token_id": EOS, "bos_token_id": BOS}


def autoregressive_model(*, seed: int = 0) -> LlamaForCausalLM:
    """A Llama of 2.8 M parameters."""
    config = LlamaConfig(
        **_TOKENS,
        hidden_size=192,
        intermediate_size=448,
        num_hidden_layers=6,
        num_attention_heads=4,
        num_key_value_heads=4,
        head_dim=HEAD_DIM,
        max_position_embeddings=MAX_POSITIONS,
        tie_word_embeddings=True,
    )
    torch.manual_seed(seed)
    model = LlamaForCausalLM(config).float()
    _initialise_attention(model)
    model.generation_config.update(do_sample=True, temperature=0.7, top_p=0.95, max_new_tokens=256)
    return model


def diffusion_model(*, seed: int = 0, hidden: int = 192, layers: int = 5) -> DiffusionGemmaForBlockDiffusion:
    """A DiffusionGemma of 3.3 M parameters: four experts of which two are used, the last layer with full attention."""
    text = DiffusionGemmaTextConfig(
        **_TOKENS,
        hidden_size=hidden,
        intermediate_size=2 * hidden,
        num_hidden_layers=layers,
        num_attention_heads=4,
        num_key_value_heads=4,
        head_dim=HEAD_DIM,
        global_head_dim=GLOBAL_HEAD_DIM,
        num_global_key_value_heads=GLOBAL_KEY_VALUE_HEADS,
        layer_types=["sliding_attention"] * (layers - 1) + ["full_attention"],
        sliding_window=WINDOW,
        max_position_embeddings=MAX_POSITIONS,
        num_experts=4,
        top_k_experts=2,
        moe_intermediate_size=64,
        initializer_range=0.02,
    )
    # Text only, but the architecture has a vision tower: the smallest one. Its position table defaults to 1.3 M parameters.
    vision = Gemma4VisionConfig(
        hidden_size=64,
        intermediate_size=128,
        num_hidden_layers=1,
        num_attention_heads=2,
        num_key_value_heads=2,
        head_dim=32,
        position_embedding_size=256,
    )
    config = DiffusionGemmaConfig(
        text_config=text,
        vision_config=vision,
        canvas_length=CANVAS,
        image_token_id=IMAGE,
        boi_token_id=IMAGE_BEGIN,
        eoi_token_id=IMAGE_END,
    )
    torch.manual_seed(seed)
    model = DiffusionGemmaForBlockDiffusion(config).float()
    _initialise_for_training(model, hidden)
    model.generation_config.update(
        max_denoising_steps=20,
        max_new_tokens=256,
        t_min=0.2,
        t_max=0.5,
        stability_threshold=1,
        confidence_threshold=0.005,
        eos_token_id=EOS,
        pad_token_id=PAD,
        bos_token_id=BOS,
    )
    model.generation_config.sampler_config = EntropyBoundSamplerConfig(entropy_bound=0.2)
    return model


@torch.no_grad()
def _initialise_for_training(model: DiffusionGemmaForBlockDiffusion, hidden: int) -> None:
    """Start from where training works.

    The default is meant for loading weights: attention has scaling 1.0 on unit-RMS q and k (logits of std √head_dim), every
    sub-layer ends in a unit-RMS norm. The embedding's scale matters too: the decoder norms its input, the encoder does not,
    and with tied layers that difference is all that tells "predict the next token" from "predict this one".
    """
    decoder = model.model.decoder
    decoder.embed_tokens.weight.normal_(std=0.25 * hidden**-0.5)
    for layer in decoder.layers:
        attention = layer.self_attn
        attention.q_norm.weight.fill_(attention.head_dim**-0.25)
        attention.k_norm.weight.fill_(attention.head_dim**-0.25)
        values = attention.k_proj if attention.v_proj is None else attention.v_proj
        _begin_by_copying(attention.o_proj.weight, values.weight, attention.head_dim)
        layer.post_attention_layernorm.weight.fill_(0.3)
        layer.post_feedforward_layernorm.weight.fill_(0.3)


@torch.no_grad()
def _initialise_attention(model: LlamaForCausalLM) -> None:
    """Attention logits of std 1 and heads that copy: from the default (0.02) it looks at all tokens alike for very long."""
    for layer in model.model.layers:
        attention = layer.self_attn
        for projection in (attention.q_proj, attention.k_proj, attention.v_proj):
            projection.weight.normal_(std=model.config.hidden_size**-0.5)
        _begin_by_copying(attention.o_proj.weight, attention.v_proj.weight, HEAD_DIM)


@torch.no_grad()
def _begin_by_copying(output: torch.Tensor, values: torch.Tensor, head_dim: int) -> None:
    """Let every head pass on what it attends to: `output` [H, heads·D] becomes the transpose of `values` [kv_heads·D, H].

    That a name in a story is the same name all along takes such small models very long to find out from random weights.
    (Trockman and Kolter, "Mimetic Initialization of Self-Attention Layers", 2023, begin near such products.)
    """
    per_head = values.view(-1, head_dim, values.size(1))
    shared = output.size(1) // values.size(0)
    output.copy_(per_head.repeat_interleave(shared, 0).reshape(output.size(1), -1).T)
