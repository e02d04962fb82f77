"""Checkpoints in the form that transformers 5.19 and 5.24 and vLLM all read."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch
from transformers import PreTrainedModel, PreTrainedTokenizerFast

from examples.train.models import GLOBAL_HEAD_DIM, GLOBAL_KEY_VALUE_HEADS


def save(model: PreTrainedModel, tokenizer: PreTrainedTokenizerFast, folder: Path) -> None:
    """Write weights (bfloat16, half the size; load them as float32 on a CPU), configuration and tokenizer.

    The model itself stays in float32.
    """
    halves: dict[int, torch.Tensor] = {}  # tied weights stay one tensor, and are written once
    weights = {
        name: halves.setdefault(tensor.data_ptr(), tensor.detach().to(torch.bfloat16))
        for name, tensor in model.state_dict().items()
    }
    model.save_pretrained(folder, state_dict=weights)
    (folder / "model.safetensors").chmod(0o644)  # written as 0600, which a container's user could not read
    tokenizer.save_pretrained(folder)
    _rewrite(folder / "config.json", _portable)
    _rewrite(folder / "generation_config.json", _drop("transformers_version", "_from_model_config"))
    _rewrite(folder / "tokenizer_config.json", _drop("is_local", "local_files_only"))
    print(f"saved {folder}", flush=True)


def load_weights(model: PreTrainedModel, folder: Path) -> None:
    """Put the weights of an earlier checkpoint into `model`; the optimizer begins anew."""
    earlier = type(model).from_pretrained(folder, dtype=torch.float32)
    model.load_state_dict(earlier.state_dict())


def _portable(config: dict[str, Any]) -> None:
    """transformers 5.24 writes per-layer head sizes in a form that 5.19 and vLLM do not know; all know this one."""
    config.pop("transformers_version", None)
    config["dtype"] = "bfloat16"
    if text := config.get("text_config"):
        text.pop("per_layer_config", None)
        text.update(global_head_dim=GLOBAL_HEAD_DIM, num_global_key_value_heads=GLOBAL_KEY_VALUE_HEADS)
        for part in (text, config["vision_config"]):
            part["dtype"] = "bfloat16"


def _drop(*keys: str) -> Callable[[dict[str, Any]], None]:
    def change(content: dict[str, Any]) -> None:
        for key in keys:
            content.pop(key, None)

    return change


def _rewrite(path: Path, change: Callable[[dict[str, Any]], None]) -> None:
    content = json.loads(path.read_text())
    change(content)
    path.write_text(json.dumps(content, indent=2) + "\n")
