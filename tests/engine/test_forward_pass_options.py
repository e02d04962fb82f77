"""The forward pass in other conditions: half precision, sums too long to be shared by rows, models it must refuse."""

import json
import shutil
from pathlib import Path

import pytest
import torch
from diffusion_worker.models.checkpoint import open_checkpoint
from diffusion_worker.models.diffusion import DiffusionModel, load_diffusion_model
from diffusion_worker.models.errors import UnsupportedCheckpointError
from diffusion_worker.models.layers import Linear
from transformers import DiffusionGemmaForBlockDiffusion, DynamicCache

from tests.engine.checkpoints import CANVAS, VOCAB
from tests.engine.conftest import config_of


def tokens(count: int, seed: int) -> list[int]:
    """Reproducible token ids."""
    return torch.randint(VOCAB, (count,), generator=torch.Generator().manual_seed(seed)).tolist()


def logits_of(model: DiffusionModel, prompts: list[list[int]], canvases: list[list[int]]) -> torch.Tensor:
    """Logits [B, C, V] of the first step of a canvas after each prompt."""
    cache = model.new_cache(max_rows=len(prompts))
    slots = [cache.take_slot() for _ in prompts]
    model.encode(cache, slots, [0] * len(prompts), prompts)
    soft = model.no_soft_embedding().expand(len(prompts), -1, -1)
    return model.denoise(cache, slots, [len(prompt) for prompt in prompts], torch.tensor(canvases), soft)


@torch.no_grad()
def reference_logits(reference: DiffusionGemmaForBlockDiffusion, prompt: list[int], canvas: list[int]) -> torch.Tensor:
    """The same by transformers."""
    cache = DynamicCache(config=reference.config.text_config)
    reference.model.encoder(input_ids=torch.tensor([prompt]), cache=cache)
    logits: torch.Tensor = reference(decoder_input_ids=torch.tensor([canvas]), cache=cache).logits[0]
    return logits


def test_bfloat16_is_as_near_to_float32_as_transformers_bfloat16_is(diffusion_folder: Path) -> None:
    prompt, canvas = tokens(60, 1), tokens(CANVAS, 2)
    checkpoint = open_checkpoint(config_of(diffusion_folder, "diffusion", dtype="bfloat16"))
    ours = logits_of(load_diffusion_model(checkpoint), [prompt], [canvas])[0]
    half, full = (
        reference_logits(DiffusionGemmaForBlockDiffusion.from_pretrained(diffusion_folder, dtype=dtype), prompt, canvas)
        for dtype in (torch.bfloat16, torch.float32)
    )
    assert ours.dtype == torch.float32
    assert (ours - full).abs().mean() < 1.5 * (half - full).abs().mean()


def test_rows_of_a_wide_model_take_turns_with_the_same_numbers(
    diffusion_folder: Path, diffusion_model: DiffusionModel, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(Linear, "MAX_EXACT_SUM", 16)
    wide = load_diffusion_model(open_checkpoint(config_of(diffusion_folder, "diffusion")))
    prompts, canvases = [tokens(n, n) for n in (3, 40, 80)], [tokens(CANVAS, n) for n in (4, 5, 6)]
    assert torch.equal(logits_of(wide, prompts, canvases), logits_of(diffusion_model, prompts, canvases))


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"hidden_activation": "relu"}, "has the activation relu"),
        ({"use_bidirectional_attention": "all"}, "bidirectional encoder"),
    ],
)
def test_models_that_it_does_not_follow_are_refused(
    diffusion_folder: Path, tmp_path: Path, change: dict[str, object], message: str
) -> None:
    folder = Path(shutil.copytree(diffusion_folder, tmp_path / "copy"))
    config = json.loads((folder / "config.json").read_text())
    config["text_config"] |= change
    (folder / "config.json").write_text(json.dumps(config))
    with pytest.raises(UnsupportedCheckpointError, match=message):
        load_diffusion_model(open_checkpoint(config_of(folder, "diffusion")))


def test_encoders_with_weights_of_their_own_are_refused(diffusion_folder: Path, tmp_path: Path) -> None:
    model = DiffusionGemmaForBlockDiffusion.from_pretrained(diffusion_folder, dtype=torch.float32)
    model.config.tie_word_embeddings = False
    untied = type(model)(model.config)
    folder = Path(shutil.copytree(diffusion_folder, tmp_path / "copy"))
    untied.save_pretrained(folder)
    with pytest.raises(UnsupportedCheckpointError, match="tied"):
        load_diffusion_model(open_checkpoint(config_of(folder, "diffusion")))
