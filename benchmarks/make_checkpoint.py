"""The model of the same-work benchmark: a small DiffusionGemma with random weights, in a form that transformers 5.19 and 5.24, vLLM and our
engine all load. `python -m benchmarks.make_checkpoint FOLDER`.

Its canvases never become confident and its answers never end by themselves, so that every competitor makes the same number of passes.
"""

import argparse
import json
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import torch
import transformers
from tokenizers import Tokenizer, decoders, models, pre_tokenizers, trainers
from transformers import (
    DiffusionGemmaConfig,
    DiffusionGemmaForBlockDiffusion,
    DiffusionGemmaTextConfig,
    Gemma4VisionConfig,
    PreTrainedTokenizerFast,
)

CANVAS = 64
STEPS = 16  # denoising steps of each canvas
_SPECIAL = ["<pad>", "<eos>", "<bos>", "<unk>", "<image>", "<boi>", "<eoi>"]
_NEVER = 1e-9  # nats


@dataclass(frozen=True)
class Shape:
    """Sizes of the model; layers and experts are as many in all."""

    width: int = 256
    head_width: int = 64  # vLLM's CPU attention knows few widths, this one among them
    vocabulary: int = 2048
    heads: int = 4
    kv_heads: int = 2
    global_kv_heads: int = 1
    layer_types: tuple[str, ...] | None = None  # None: five sliding layers and a full one
    window: int = 128
    experts: int = 8
    active_experts: int = 2

    @property
    def global_heads(self) -> dict[str, Any]:
        """Of the layers with full attention."""
        return {"global_head_dim": 2 * self.head_width, "num_global_key_value_heads": self.global_kv_heads}


EMPTY = Shape(
    width=16, head_width=8, vocabulary=320
)  # so little arithmetic that a pass takes what Python and torch's dispatch take


def make(folder: Path, shape: Shape = Shape()) -> None:
    """Write the checkpoint; the same versions of torch and transformers write the same one."""
    torch.manual_seed(0)
    text: dict[str, Any] = {
        "vocab_size": shape.vocabulary,
        "hidden_size": shape.width,
        "intermediate_size": 2 * shape.width,
        "num_hidden_layers": len(shape.layer_types or range(6)),
        "layer_types": None if shape.layer_types is None else list(shape.layer_types),
        "num_attention_heads": shape.heads,
        "num_key_value_heads": shape.kv_heads,
        "head_dim": shape.head_width,
        "sliding_window": shape.window,
        "max_position_embeddings": 4096,
        "num_experts": shape.experts,
        "top_k_experts": shape.active_experts,
        "moe_intermediate_size": shape.width // 2,
        "pad_token_id": 0,
        "eos_token_id": 1,
        "bos_token_id": 2,
    }
    vision = Gemma4VisionConfig(  # the architecture has it; no request here does
        hidden_size=64,
        intermediate_size=128,
        num_hidden_layers=1,
        num_attention_heads=2,
        num_key_value_heads=2,
        head_dim=32,
        position_embedding_size=256,
    )
    model: Any = DiffusionGemmaForBlockDiffusion(
        DiffusionGemmaConfig(
            text_config=DiffusionGemmaTextConfig(**text, **shape.global_heads),
            vision_config=vision,
            canvas_length=CANVAS,
            image_token_id=4,
            boi_token_id=5,
            eoi_token_id=6,
        )
    )
    model.float().save_pretrained(folder)
    tokenizer(shape.vocabulary).save_pretrained(folder)
    _rewrite(folder / "config.json", partial(_readable_by_all, shape))
    _rewrite(folder / "generation_config.json", _of_fixed_work)


def tokenizer(vocabulary: int) -> PreTrainedTokenizerFast:
    """Byte-level BPE, trained on Python code that every installation has."""
    made = Tokenizer(models.BPE())
    made.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    made.decoder = decoders.ByteLevel()
    trainer = trainers.BpeTrainer(
        vocab_size=vocabulary,
        special_tokens=_SPECIAL,
        initial_alphabet=sorted(pre_tokenizers.ByteLevel.alphabet()),
        show_progress=False,
    )
    code = sorted(Path(transformers.__file__).parent.glob("models/gemma*/*.py"))[:20]
    made.train_from_iterator((file.read_text(encoding="utf-8") for file in code), trainer)
    names = ("pad_token", "eos_token", "bos_token", "unk_token")
    return PreTrainedTokenizerFast(  # type: ignore[no-untyped-call]
        tokenizer_object=made, **dict(zip(names, _SPECIAL, strict=False))
    )


def _readable_by_all(shape: Shape, config: dict[str, Any]) -> None:
    """transformers 5.24 writes the full layers' shape as `per_layer_config`, which the other two do not read."""
    text = config["text_config"]
    text.pop("per_layer_config", None)
    text.update(shape.global_heads)
    text["eos_token_id"] = None


def _of_fixed_work(generation: dict[str, Any]) -> None:
    generation.update(
        max_denoising_steps=STEPS,
        confidence_threshold=_NEVER,
        stability_threshold=1,
        t_min=0.4,
        t_max=0.8,
        sampler_config={"_cls_name": "EntropyBoundSamplerConfig", "entropy_bound": 0.1},
        max_new_tokens=256,
        eos_token_id=None,
        pad_token_id=0,
        bos_token_id=2,
    )


def _rewrite(file: Path, change: Callable[[dict[str, Any]], None]) -> None:
    content = json.loads(file.read_text())
    content.pop("transformers_version", None)
    change(content)
    file.write_text(json.dumps(content, indent=2) + "\n")


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--empty", action="store_true", help="with widths so small that a pass is all overhead")
    options = parser.parse_args()
    make(options.folder, EMPTY if options.empty else Shape())
