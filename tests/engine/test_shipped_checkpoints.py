"""The demo's checkpoints load, match transformers, and answer in text."""

from pathlib import Path

import pytest
import torch
from diffusion_worker.engine import load_engine
from diffusion_worker.models.ar import load_ar_model
from diffusion_worker.models.cache import KVCache
from diffusion_worker.models.checkpoint import open_checkpoint
from diffusion_worker.models.diffusion import load_diffusion_model
from transformers import AutoModelForCausalLM, DiffusionGemmaForBlockDiffusion, DynamicCache

from tests.engine.answers import request, send
from tests.engine.conftest import config_of

CHECKPOINTS = Path(__file__).parents[2] / "examples" / "checkpoints"
TOLERANCE = 1e-4


@torch.no_grad()
def test_the_storyteller_predicts_what_transformers_predicts() -> None:
    folder = CHECKPOINTS / "storyteller"
    ours = load_diffusion_model(open_checkpoint(config_of(folder, "diffusion", device="cpu")))
    theirs = DiffusionGemmaForBlockDiffusion.from_pretrained(folder, dtype=torch.float32)
    prompt = ours.tokenizer.encode("Once upon a time there was a fox. " * 20)
    canvas = torch.arange(ours.canvas_length)[None] + 100
    upstream_cache = DynamicCache(config=theirs.config.text_config)
    theirs.model.encoder(input_ids=torch.tensor([prompt]), cache=upstream_cache)
    expected = theirs(decoder_input_ids=canvas, cache=upstream_cache).logits
    cache = ours.new_cache(max_rows=1)
    slots = [cache.take_slot()]
    ours.encode(cache, slots, [0], [prompt])
    logits = ours.denoise(cache, slots, [len(prompt)], canvas, ours.no_soft_embedding()[None])
    assert (logits - expected).abs().max() < TOLERANCE


@torch.no_grad()
def test_its_autoregressive_twin_predicts_what_transformers_predicts() -> None:
    folder = CHECKPOINTS / "storyteller-ar"
    ours = load_ar_model(open_checkpoint(config_of(folder, "ar", device="cpu")))
    prompt = ours.tokenizer.encode("Once upon a time there was a fox. " * 20)
    expected = AutoModelForCausalLM.from_pretrained(folder, dtype=torch.float32)(torch.tensor([prompt])).logits[:, -1]
    cache = KVCache(max_rows=1, max_length=ours.max_sequence_length)
    assert (ours.forward(cache, [cache.take_slot()], [0], [prompt]) - expected).abs().max() < TOLERANCE


@pytest.mark.parametrize(("name", "kind"), [("storyteller", "diffusion"), ("storyteller-ar", "ar")])
def test_they_answer_in_words(name: str, kind: str) -> None:
    engine = load_engine(config_of(CHECKPOINTS / name, kind, device="cpu"))
    try:
        (answer,) = send(engine, request("Once upon a time", max_tokens=64))
        assert answer.finish.completion_tokens > 0
        assert len(answer.text.split()) > 10
    finally:
        engine.close()
