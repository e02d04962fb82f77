"""A checkpoint folder in Hugging Face's layout: where it is, what it holds, and how to load it."""

import json
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from transformers.utils.logging import disable_progress_bar

from diffusion_worker.config import EngineConfig
from diffusion_worker.models.errors import (
    CheckpointNotFoundError,
    DeviceError,
    UnsupportedCheckpointError,
)

_DTYPES = {"float32": torch.float32, "bfloat16": torch.bfloat16, "float16": torch.float16}


@dataclass(frozen=True)
class Checkpoint:
    """A folder that looks like a checkpoint, and how its weights shall be held."""

    folder: Path
    model_type: str
    architectures: tuple[str, ...]
    dtype: torch.dtype
    device: torch.device


def open_checkpoint(config: EngineConfig) -> Checkpoint:
    """Find the checkpoint and read what it is. Raises CheckpointError, whose message tells the remedy.

    `config.path` must be set: `diffusion_worker.sources` downloads what is on the hub.
    """
    if config.path is None:
        raise CheckpointNotFoundError(f"the model source {config.source} came without a local path")
    folder = Path(config.path)
    if not folder.is_dir():
        raise CheckpointNotFoundError(f"there is no folder {folder} for the model source {config.source}")
    model_config = read_json(folder / "config.json")
    if not any(folder.glob("*.safetensors")):
        pickled = sorted(path.name for pattern in ("*.bin", "*.pt", "*.pth") for path in folder.glob(pattern))
        raise UnsupportedCheckpointError(
            f"{folder} has no *.safetensors"
            + (f"; {pickled[0]} is pickled, and unpickling can run any code: convert it" if pickled else "")
        )
    generation_config = folder / "generation_config.json"
    if generation_config.exists():
        read_json(generation_config)  # transformers takes a damaged one for none, and other defaults with it
    device = _device(config.device)
    text_config = model_config.get("text_config") or {}
    saved = next((c[k] for c in (model_config, text_config) for k in ("dtype", "torch_dtype") if c.get(k)), "float32")
    return Checkpoint(
        folder=folder,
        model_type=model_config.get("model_type", ""),
        architectures=tuple(model_config.get("architectures") or ()),
        dtype=_dtype(config.dtype, saved, device),
        device=device,
    )


def load_weights(
    checkpoint: Checkpoint,
    model_class: Any,
    *,
    config: Any = None,
    names: Mapping[str, str] | None = None,
    name_in_checkpoint: Callable[[str], str] = str,
) -> Any:
    """The model in eval mode on its device; refuses a checkpoint in which weights are missing.

    For a checkpoint that is not in transformers' layout: the `config` of the model class, what to replace in the `names` of
    weights, in this order, and how to tell where a weight stands in the checkpoint (`name_in_checkpoint`).
    """
    layout = {} if config is None else {"config": config}
    if names:
        layout["key_mapping"] = {re.escape(theirs): ours for theirs, ours in names.items()}
    disable_progress_bar()  # type: ignore[no-untyped-call]
    try:
        model, report = model_class.from_pretrained(
            checkpoint.folder,
            dtype=checkpoint.dtype,
            attn_implementation="sdpa",
            use_safetensors=True,
            local_files_only=True,
            trust_remote_code=False,
            output_loading_info=True,
            **layout,
        )
    except Exception as error:  # SafetensorError of a file cut short, TypeError of an odd config, and whatever else
        raise UnsupportedCheckpointError(f"the weights in {checkpoint.folder} cannot be loaded: {error}") from error
    missing = sorted(name_in_checkpoint(name) for name in report["missing_keys"])
    if missing:
        raise UnsupportedCheckpointError(
            f"{checkpoint.folder} lacks {len(missing)} of the model's weights, among them {missing[0]}; "
            "is the download complete?"
        )
    return model.to(checkpoint.device).eval().requires_grad_(False)


def eos_token_ids(model: Any) -> frozenset[int]:
    """Tokens that end an answer: generation_config.json's, else those of the model's configuration.

    One that is beyond the vocabulary is left out: it cannot come. UnsupportedCheckpointError when one is no number.
    """
    text = model.config.get_text_config()
    eos = model.generation_config.eos_token_id
    if eos is None:
        eos = text.eos_token_id
    token_ids = eos if isinstance(eos, list) else [] if eos is None else [eos]
    if not all(isinstance(token_id, int) for token_id in token_ids):
        raise UnsupportedCheckpointError(f"the checkpoint's eos_token_id must be token ids, not {eos!r}")
    return frozenset(token_id for token_id in token_ids if 0 <= token_id < text.vocab_size)


def read_json(path: Path) -> dict[str, Any]:
    """A file of the checkpoint that holds a JSON object; CheckpointError when it does not."""
    try:
        content = json.loads(path.read_text(encoding="utf-8"))
    except FileNotFoundError as error:
        raise CheckpointNotFoundError(f"{path.parent} has no {path.name}; it is not a checkpoint folder") from error
    except (OSError, ValueError) as error:
        raise UnsupportedCheckpointError(f"{path} cannot be read: {error}") from error
    if not isinstance(content, dict):
        raise UnsupportedCheckpointError(f"{path} does not hold a JSON object")
    return content


def _device(name: str) -> torch.device:
    if name == "auto":
        return torch.device("cuda" if torch.cuda.is_available() else "cpu")
    if name == "cuda" and not torch.cuda.is_available():
        raise DeviceError("device cuda was asked for, but torch sees no GPU in this container")
    if name not in ("cpu", "cuda"):
        raise DeviceError(f"device must be auto, cpu or cuda, not {name}")
    return torch.device(name)


def _dtype(name: str, saved: str, device: torch.device) -> torch.dtype:
    """auto: as saved; float32 on CPU, where half precision is slow and no smaller in what matters here."""
    if name == "auto":
        name = "float32" if device.type == "cpu" else saved
    if name not in _DTYPES:
        raise DeviceError(f"dtype must be auto or one of {', '.join(_DTYPES)}, not {name}")
    return _DTYPES[name]
