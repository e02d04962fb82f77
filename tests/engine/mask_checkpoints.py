"""Tiny random checkpoints in the layout of LLaDA-8B and Dream-7B, remote code's traces included, and what they stand for."""

import json
from pathlib import Path
from typing import Any

import torch
from safetensors.torch import save_file
from tokenizers import Tokenizer as FastTokenizer
from tokenizers import decoders, models, pre_tokenizers, trainers
from transformers import LlamaConfig, LlamaForCausalLM, PreTrainedTokenizerFast, Qwen2Config, Qwen2ForCausalLM

from tests.engine.checkpoints import CHAT_TEMPLATE, VOCAB

EOS, TURN_END, MASK = 1, 2, 3
LLADA = {
    "activation_type": "silu",
    "alibi": False,
    "architectures": ["LLaDAModelLM"],
    "attention_layer_norm": False,
    "auto_map": {
        "AutoConfig": "configuration_llada.LLaDAConfig",
        "AutoModel": "modeling_llada.LLaDAModelLM",
        "AutoModelForCausalLM": "modeling_llada.LLaDAModelLM",
    },
    "bias_for_layer_norm": False,
    "block_group_size": 1,
    "block_type": "llama",
    "d_model": 48,
    "embedding_size": VOCAB,
    "eos_token_id": EOS,
    "include_bias": False,
    "include_qkv_bias": False,
    "input_emb_norm": False,
    "layer_norm_type": "rms",
    "layer_norm_with_affine": True,
    "mask_token_id": MASK,
    "max_sequence_length": 512,
    "mlp_hidden_size": 64,
    "mlp_ratio": 4,
    "model_type": "llada",
    "multi_query_attention": None,
    "n_heads": 4,
    "n_kv_heads": 4,
    "n_layers": 2,
    "pad_token_id": EOS,
    "rms_norm_eps": 1e-05,
    "rope": True,
    "rope_full_precision": True,
    "rope_theta": 500000.0,
    "scale_logits": False,
    "vocab_size": VOCAB,
    "weight_tying": False,
}
DREAM = {
    "architectures": ["DreamModel"],
    "attention_dropout": 0.0,
    "auto_map": {"AutoConfig": "configuration_dream.DreamConfig", "AutoModel": "modeling_dream.DreamModel"},
    "bos_token_id": EOS,
    "eos_token_id": EOS,
    "hidden_act": "silu",
    "hidden_size": 48,
    "intermediate_size": 64,
    "mask_token_id": MASK,
    "max_position_embeddings": 512,
    "max_window_layers": 28,
    "model_type": "Dream",
    "num_attention_heads": 4,
    "num_hidden_layers": 2,
    "num_key_value_heads": 2,
    "pad_token_id": EOS,
    "rms_norm_eps": 1e-06,
    "rope_scaling": None,
    "rope_theta": 1000000.0,
    "sliding_window": None,
    "tie_word_embeddings": False,
    "use_mrope": False,
    "use_sliding_window": False,
    "vocab_size": VOCAB,
}
_LLADA_BLOCK = {  # of transformers' Llama
    "q_proj": "self_attn.q_proj",
    "k_proj": "self_attn.k_proj",
    "v_proj": "self_attn.v_proj",
    "attn_out": "self_attn.o_proj",
    "ff_proj": "mlp.gate_proj",
    "up_proj": "mlp.up_proj",
    "ff_out": "mlp.down_proj",
    "attn_norm": "input_layernorm",
    "ff_norm": "post_attention_layernorm",
}


def llada_reference(config: dict[str, Any] = LLADA) -> LlamaForCausalLM:
    """A random Llama of the same shape."""
    torch.manual_seed(3)
    return _sharpened(
        LlamaForCausalLM(
            LlamaConfig(
                vocab_size=config["embedding_size"],
                hidden_size=config["d_model"],
                intermediate_size=config["mlp_hidden_size"],
                num_hidden_layers=config["n_layers"],
                num_attention_heads=config["n_heads"],
                num_key_value_heads=config["n_kv_heads"],
                max_position_embeddings=config["max_sequence_length"],
                rms_norm_eps=config["rms_norm_eps"],
                rope_parameters={"rope_type": "default", "rope_theta": config["rope_theta"]},
            )
        )
    )


def dream_reference(config: dict[str, Any] = DREAM) -> Qwen2ForCausalLM:
    """A random Qwen 2 of the same shape, with biases that matter."""
    torch.manual_seed(4)
    fields = ("vocab_size", "hidden_size", "intermediate_size", "num_hidden_layers", "num_attention_heads")
    more = ("num_key_value_heads", "max_position_embeddings", "rms_norm_eps")
    model = Qwen2ForCausalLM(
        Qwen2Config(
            **{field: config[field] for field in fields + more},
            rope_parameters={"rope_type": "default", "rope_theta": config["rope_theta"]},
        )
    )
    for name, parameter in model.named_parameters():
        if name.endswith(".bias"):
            parameter.data.normal_(std=0.5)
    return _sharpened(model)


def _sharpened(model: Any) -> Any:
    """Attention that looks at single positions, and predictions far from uniform, as a trained model's are."""
    for name, parameter in model.named_parameters():
        if "q_proj.weight" in name or "k_proj.weight" in name:
            parameter.data.mul_(20)
        elif "_proj.weight" in name:
            parameter.data.mul_(10)
    model.model.norm.weight.data.add_(19)
    return model.eval()


def save_llada(folder: Path, config: dict[str, Any] = LLADA, *, shards: int = 1) -> None:
    """A LLaDA checkpoint of `llada_reference`."""
    theirs = llada_reference(config).state_dict()
    weights = {
        "model.transformer.wte.weight": theirs["model.embed_tokens.weight"],
        "model.transformer.ln_f.weight": theirs["model.norm.weight"],
        "model.transformer.ff_out.weight": theirs["lm_head.weight"],
    }
    for layer in range(config["n_layers"]):
        for name, ours in _LLADA_BLOCK.items():
            weights[f"model.transformer.blocks.{layer}.{name}.weight"] = theirs[f"model.layers.{layer}.{ours}.weight"]
    _save(folder, config, weights, shards)
    fast = PreTrainedTokenizerFast(
        tokenizer_object=_byte_level_bpe("<|eot_id|>", "<|mdm_mask|>"), eos_token="<|endoftext|>"
    )
    fast.chat_template = CHAT_TEMPLATE
    fast.save_pretrained(folder)


def save_dream(folder: Path, config: dict[str, Any] = DREAM, *, shards: int = 1) -> None:
    """A Dream checkpoint of `dream_reference`. Its tokenizer is in the files of a slow one, and of a class of its own."""
    _save(folder, config, dream_reference(config).state_dict(), shards)
    generation = {"_from_model_config": True, "eos_token_id": EOS, "mask_token_id": MASK, "pad_token_id": EOS}
    (folder / "generation_config.json").write_text(json.dumps(generation))
    special = {EOS: "<|endoftext|>", TURN_END: "<|im_end|>", MASK: "<|mask|>"}
    _byte_level_bpe("<|im_end|>", "<|mask|>").model.save(str(folder))
    (folder / "tokenizer_config.json").write_text(
        json.dumps(
            {
                "added_tokens_decoder": {
                    str(token_id): {"content": token, "special": True} for token_id, token in special.items()
                },
                "auto_map": {"AutoTokenizer": ["tokenization_dream.DreamTokenizer", None]},
                "chat_template": CHAT_TEMPLATE,
                "eos_token": "<|endoftext|>",
                "mask_token": "<|mask|>",
                "pad_token": "<|endoftext|>",
                "tokenizer_class": "DreamTokenizer",
            }
        )
    )


def _save(folder: Path, config: dict[str, Any], weights: dict[str, torch.Tensor], shards: int) -> None:
    folder.mkdir(exist_ok=True)
    (folder / "config.json").write_text(json.dumps(config))
    if shards == 1:
        save_file(weights, folder / "model.safetensors", metadata={"format": "pt"})
        return
    weight_map = {}
    for shard in range(shards):
        file = f"model-{shard + 1:05d}-of-{shards:05d}.safetensors"
        part = {name: weight for i, (name, weight) in enumerate(weights.items()) if i % shards == shard}
        save_file(part, folder / file, metadata={"format": "pt"})
        weight_map |= dict.fromkeys(part, file)
    (folder / "model.safetensors.index.json").write_text(json.dumps({"metadata": {}, "weight_map": weight_map}))


def _byte_level_bpe(turn_end: str, mask: str) -> FastTokenizer:
    tokenizer = FastTokenizer(models.BPE())
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = decoders.ByteLevel()
    trainer = trainers.BpeTrainer(
        vocab_size=VOCAB,
        special_tokens=["<pad>", "<|endoftext|>", turn_end, mask],
        initial_alphabet=sorted(pre_tokenizers.ByteLevel.alphabet()),
        show_progress=False,
    )
    tokenizer.train_from_iterator(["the fox and the hen went down to the river " * 20], trainer)
    return tokenizer
