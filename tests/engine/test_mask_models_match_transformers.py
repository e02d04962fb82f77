"""LLaDA and Dream checkpoints are Llama and Qwen 2 without the causal mask, whatever rows share a pass."""

import json
import random
import shutil
from pathlib import Path
from typing import Any

import pytest
import torch
from diffusion_worker.config import MaskCache
from diffusion_worker.models.checkpoint import open_checkpoint
from diffusion_worker.models.errors import TokenizerError, UnsupportedCheckpointError
from diffusion_worker.models.mask_diffusion import MaskedSequence, MaskModel, load_mask_model
from safetensors.torch import load_file, save_file

from tests.engine.checkpoints import VOCAB
from tests.engine.conftest import config_of
from tests.engine.mask_checkpoints import MASK, dream_reference, llada_reference, save_llada

TOLERANCE = 1e-4
ARCHITECTURES = ["llada", "dream"]


def reference_of(architecture: str) -> Any:
    """transformers' model with the same weights."""
    return llada_reference() if architecture == "llada" else dream_reference()


def reference_logits(architecture: str, sequence: MaskedSequence) -> torch.Tensor:
    """Logits [W, V] of the block, from the sequence alone. Dream's predictions stand one position before."""
    length = len(sequence.token_ids)
    with torch.no_grad():
        logits = reference_of(architecture)(
            input_ids=torch.tensor([sequence.token_ids]), attention_mask=torch.zeros(1, 1, length, length)
        ).logits[0]
    shift = 1 if architecture == "dream" else 0
    return logits[sequence.start - shift : sequence.end - shift]


def sequences(*, blocks: list[tuple[int, int, int]]) -> list[MaskedSequence]:
    """Random text of so many tokens, a block of so many positions of which some are filled, and masks."""
    chance = random.Random(0)
    found = []
    for text, width, ahead in blocks:
        block = [MASK if chance.random() < 0.6 else chance.randrange(4, VOCAB) for _ in range(width)]
        token_ids = [chance.randrange(4, VOCAB) for _ in range(text)] + block + [MASK] * ahead
        found.append(MaskedSequence(token_ids, start=text, end=text + width))
    return found


MIXED = sequences(blocks=[(1, 8, 0), (40, 16, 24), (13, 5, 3), (90, 16, 0), (7, 16, 64)])


@pytest.mark.parametrize("architecture", ARCHITECTURES)
def test_logits_of_mixed_rows(architecture: str, request: pytest.FixtureRequest) -> None:
    model: MaskModel = request.getfixturevalue(f"{architecture}_model")
    hidden, caches = model.full_pass(MIXED, keep=MaskCache.NONE)
    assert caches == []
    for states, sequence in zip(hidden, MIXED, strict=True):
        theirs = reference_logits(architecture, sequence)
        assert (model.logits(states)[: len(theirs)] - theirs).abs().max() < TOLERANCE


@pytest.mark.parametrize("keep", [MaskCache.PREFIX, MaskCache.DUAL])
@pytest.mark.parametrize("architecture", ARCHITECTURES)
def test_a_cached_pass_sees_the_same_while_nothing_has_changed(
    architecture: str, keep: MaskCache, request: pytest.FixtureRequest
) -> None:
    model: MaskModel = request.getfixturevalue(f"{architecture}_model")
    _, caches = model.full_pass(MIXED, keep=keep)
    order = [3, 0, 4]  # other rows than those of the full pass, in another order
    hidden = model.cached_pass([MIXED[i] for i in order], [caches[i] for i in order])
    for states, i in zip(hidden, order, strict=True):
        theirs = reference_logits(architecture, MIXED[i])
        assert (model.logits(states)[: len(theirs)] - theirs).abs().max() < TOLERANCE


@pytest.mark.parametrize("architecture", ARCHITECTURES)
def test_a_cached_pass_reads_the_block_anew_and_the_text_before_it_not(
    architecture: str, request: pytest.FixtureRequest
) -> None:
    model: MaskModel = request.getfixturevalue(f"{architecture}_model")
    (sequence,) = sequences(blocks=[(30, 8, 8)])
    _, caches = model.full_pass([sequence], keep=MaskCache.DUAL)
    before = model.cached_pass([sequence], caches)
    other_text = MaskedSequence([9] * 20 + sequence.token_ids[20:], sequence.start, sequence.end)
    assert torch.equal(model.cached_pass([other_text], caches), before)
    filled = list(sequence.token_ids)
    filled[sequence.start : sequence.end] = range(10, 18)
    after = model.cached_pass([MaskedSequence(filled, sequence.start, sequence.end)], caches)
    assert (after - before).abs().max() > 0.01


@pytest.mark.parametrize(("keep", "cached"), [(MaskCache.PREFIX, 30), (MaskCache.DUAL, 38)])
def test_a_cache_holds_what_it_must_and_no_more(llada_model: MaskModel, keep: MaskCache, cached: int) -> None:
    (sequence,) = sequences(blocks=[(30, 8, 8)])
    _, (cache,) = llada_model.full_pass([sequence], keep=keep)
    layers, heads, head_dim = 2, 4, 12
    assert cache.length == cached
    assert cache.nbytes == layers * 2 * heads * head_dim * cached * 4


def test_weights_in_shards_and_in_bfloat16(tmp_path: Path, llada_model: MaskModel) -> None:
    save_llada(tmp_path, shards=3)
    sharded = load_mask_model(open_checkpoint(config_of(tmp_path, "diffusion")))
    hidden, _ = sharded.full_pass(MIXED, keep=MaskCache.NONE)
    assert torch.equal(hidden, llada_model.full_pass(MIXED, keep=MaskCache.NONE)[0])
    half = load_mask_model(open_checkpoint(config_of(tmp_path, "diffusion", dtype="bfloat16")))
    states, (cache,) = half.full_pass(MIXED[:1], keep=MaskCache.PREFIX)
    assert cache.states.dtype == states.dtype == torch.bfloat16
    assert half.logits(states[0]).dtype == torch.float32


def damaged(folder: Path, target: Path, **fields: object) -> Path:
    """A copy of a checkpoint with other fields in its config.json."""
    copy = shutil.copytree(folder, target / "copy")
    config = json.loads((copy / "config.json").read_text())
    (copy / "config.json").write_text(json.dumps({k: v for k, v in (config | fields).items() if v != "gone"}))
    return copy


@pytest.mark.parametrize(
    ("architecture", "lost"),
    [
        ("llada", "model.transformer.blocks.1.attn_out.weight"),
        ("llada", "model.transformer.blocks.0.ff_out.weight"),
        ("llada", "model.transformer.ff_out.weight"),
        ("dream", "model.layers.1.self_attn.k_proj.bias"),
    ],
)
def test_a_missing_weight_is_named_as_the_checkpoint_names_it(
    architecture: str, lost: str, tmp_path: Path, request: pytest.FixtureRequest
) -> None:
    copy = damaged(request.getfixturevalue(f"{architecture}_folder"), tmp_path)
    for file in copy.glob("*.safetensors"):
        weights = {name: weight for name, weight in load_file(file).items() if name != lost}
        save_file(weights, file, metadata={"format": "pt"})
    with pytest.raises(UnsupportedCheckpointError, match=rf"lacks 1 of the model's weights, among them {lost}"):
        load_mask_model(open_checkpoint(config_of(copy, "diffusion")))


@pytest.mark.parametrize(
    ("architecture", "fields", "message"),
    [
        ("llada", {"block_type": "sequential"}, "block_type: Input should be 'llama', not 'sequential'"),
        ("llada", {"include_qkv_bias": True}, "include_qkv_bias"),
        ("llada", {"alibi": True}, "alibi: Input should be False, not True"),
        ("llada", {"d_model": "gone"}, "d_model is missing"),
        ("llada", {"mask_token_id": 126336}, f"mask_token_id 126336 beyond its vocabulary of {VOCAB}"),
        ("dream", {"mask_token_id": "gone"}, "mask_token_id is missing"),
        ("dream", {"rope_scaling": {"type": "yarn", "factor": 4.0}}, "rope_scaling"),
        ("dream", {"block_size": 32}, "block_size"),
    ],
)
def test_relatives_with_other_layers_are_refused(
    architecture: str, fields: dict[str, object], message: str, tmp_path: Path, request: pytest.FixtureRequest
) -> None:
    copy = damaged(request.getfixturevalue(f"{architecture}_folder"), tmp_path, **fields)
    with pytest.raises(UnsupportedCheckpointError, match=message):
        load_mask_model(open_checkpoint(config_of(copy, "diffusion")))


@pytest.mark.parametrize("fields", [{"n_heads": 5}, {"mlp_hidden_size": 80}])
def test_a_config_of_a_shape_that_the_weights_do_not_have(
    fields: dict[str, object], llada_folder: Path, tmp_path: Path
) -> None:
    copy = damaged(llada_folder, tmp_path, **fields)
    with pytest.raises(UnsupportedCheckpointError, match=r"copy (makes no model|cannot be loaded)"):
        load_mask_model(open_checkpoint(config_of(copy, "diffusion")))


@pytest.mark.parametrize("architecture", ARCHITECTURES)
def test_tokenizers_need_no_code_of_the_checkpoint(architecture: str, request: pytest.FixtureRequest) -> None:
    model: MaskModel = request.getfixturevalue(f"{architecture}_model")
    text = "the fox – naïve 🦊\n down"
    assert model.tokenizer.decode(model.tokenizer.encode(text)) == text
    assert model.eos_token_ids == {1, 2}, "the end of a text, and of a turn"
    turn_end = "<|eot_id|>" if architecture == "llada" else "<|im_end|>"
    assert model.tokenizer.encode("the fox" + turn_end)[-1] == 2
    assert model.tokenizer.decode([MASK, 2]) == ""


def test_a_checkpoint_without_tokenizer(dream_folder: Path, tmp_path: Path) -> None:
    copy = damaged(dream_folder, tmp_path)
    for name in ("tokenizer_config.json", "vocab.json", "merges.txt"):
        (copy / name).unlink()
    with pytest.raises(TokenizerError, match="copy"):
        load_mask_model(open_checkpoint(config_of(copy, "diffusion")))
