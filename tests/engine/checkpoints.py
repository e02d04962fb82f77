"""Tiny random checkpoints: the real architectures and real files, but no training."""

from pathlib import Path

import torch
from tokenizers import Tokenizer as FastTokenizer
from tokenizers import decoders, models, pre_tokenizers, trainers
from transformers import (
    DiffusionGemmaConfig,
    DiffusionGemmaForBlockDiffusion,
    DiffusionGemmaTextConfig,
    Gemma3ForCausalLM,
    Gemma3TextConfig,
    Gemma4VisionConfig,
    LlamaConfig,
    LlamaForCausalLM,
    PreTrainedTokenizerFast,
)

CANVAS = 16
WINDOW = 24
VOCAB = 320
CHAT_TEMPLATE = "{% for m in messages %}<{{ m.role }}>{{ m.content }}\n{% endfor %}<assistant>"


def save_tokenizer(folder: Path, *, chat: bool = True) -> None:
    """Byte-level BPE, so that any text has tokens and single tokens may be half a character."""
    tokenizer = FastTokenizer(models.BPE())
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = decoders.ByteLevel()
    alphabet = sorted(pre_tokenizers.ByteLevel.alphabet())
    trainer = trainers.BpeTrainer(
        vocab_size=VOCAB, special_tokens=["<pad>", "<eos>", "<bos>"], initial_alphabet=alphabet, show_progress=False
    )
    tokenizer.train_from_iterator(["the fox and the hen went down to the river " * 20], trainer)
    fast = PreTrainedTokenizerFast(tokenizer_object=tokenizer, pad_token="<pad>", eos_token="<eos>", bos_token="<bos>")
    fast.chat_template = CHAT_TEMPLATE if chat else None
    fast.save_pretrained(folder)


def _sharpened(model: torch.nn.Module, final_norm: torch.nn.Module) -> torch.nn.Module:
    """Predictions far from uniform, as a trained model's are, by scaling up what goes into the language model's head."""
    final_norm.weight.data.add_(19)
    return model


def save_diffusion(folder: Path) -> None:
    """DiffusionGemma: three sliding layers and one full one, experts, canvas 16, window 24."""
    text = DiffusionGemmaTextConfig(
        vocab_size=VOCAB,
        hidden_size=48,
        intermediate_size=64,
        num_hidden_layers=4,
        layer_types=["sliding_attention", "sliding_attention", "sliding_attention", "full_attention"],
        num_attention_heads=4,
        num_key_value_heads=2,
        head_dim=16,
        global_head_dim=32,
        num_global_key_value_heads=1,
        sliding_window=WINDOW,
        max_position_embeddings=512,
        num_experts=4,
        top_k_experts=2,
        moe_intermediate_size=32,
        pad_token_id=0,
        eos_token_id=1,
        bos_token_id=2,
    )
    vision = Gemma4VisionConfig(
        hidden_size=16,
        intermediate_size=16,
        num_hidden_layers=1,
        num_attention_heads=1,
        num_key_value_heads=1,
        head_dim=16,
    )
    torch.manual_seed(0)
    model = DiffusionGemmaForBlockDiffusion(
        DiffusionGemmaConfig(
            text_config=text,
            vision_config=vision,
            canvas_length=CANVAS,
            image_token_id=3,
            boi_token_id=4,
            eoi_token_id=5,
        )
    )
    _sharpened(model, model.model.decoder.norm)
    model.generation_config.update(max_denoising_steps=8, t_min=0.4, t_max=0.8, eos_token_id=[1, 7], pad_token_id=0)
    model.save_pretrained(folder)
    save_tokenizer(folder)


def save_llama(folder: Path) -> None:
    """Llama: full attention only, and a tokenizer without chat template."""
    torch.manual_seed(1)
    config = LlamaConfig(
        vocab_size=VOCAB,
        hidden_size=48,
        intermediate_size=64,
        num_hidden_layers=2,
        num_attention_heads=4,
        num_key_value_heads=2,
        max_position_embeddings=512,
        pad_token_id=0,
        eos_token_id=1,
        bos_token_id=2,
    )
    model = LlamaForCausalLM(config)
    _sharpened(model, model.model.norm).save_pretrained(folder)
    save_tokenizer(folder, chat=False)


def save_gemma3(folder: Path) -> None:
    """Gemma 3: sliding and full layers, the architecture of the demo's AR twin."""
    torch.manual_seed(2)
    config = Gemma3TextConfig(
        vocab_size=VOCAB,
        hidden_size=48,
        intermediate_size=64,
        num_hidden_layers=2,
        layer_types=["sliding_attention", "full_attention"],
        num_attention_heads=4,
        num_key_value_heads=2,
        head_dim=16,
        sliding_window=WINDOW,
        max_position_embeddings=512,
        pad_token_id=0,
        eos_token_id=1,
        bos_token_id=2,
    )
    model = Gemma3ForCausalLM(config)
    _sharpened(model, model.model.norm).save_pretrained(folder)
    save_tokenizer(folder)
