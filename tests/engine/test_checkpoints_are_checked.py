"""A checkpoint that cannot be served is refused with its name and the remedy, before any request comes."""

import json
import shutil
from pathlib import Path

import pytest
import torch
from diffusion_worker.engine import load_engine
from diffusion_worker.models.checkpoint import open_checkpoint
from diffusion_worker.models.diffusion import load_diffusion_model
from diffusion_worker.models.errors import (
    CheckpointError,
    CheckpointNotFoundError,
    DeviceError,
    TokenizerError,
    UnsupportedCheckpointError,
)
from diffusion_worker.samplers.errors import SamplerError
from safetensors.torch import load_file, save_file

from tests.engine.answers import request, send
from tests.engine.conftest import config_of


@pytest.fixture
def copy(diffusion_folder: Path, tmp_path: Path) -> Path:
    """A copy of the DiffusionGemma checkpoint, to be damaged."""
    return shutil.copytree(diffusion_folder, tmp_path / "copy")


@pytest.mark.parametrize("kind", ["diffusion", "ar"])
def test_a_good_checkpoint_becomes_a_serving_engine(kind: str, diffusion_folder: Path, gemma3_folder: Path) -> None:
    engine = load_engine(config_of(diffusion_folder if kind == "diffusion" else gemma3_folder, kind))
    try:
        (answer,) = send(engine, request(max_tokens=3))
        assert answer.finish.prompt_tokens == 2
    finally:
        engine.close()


def test_a_missing_folder(tmp_path: Path) -> None:
    with pytest.raises(CheckpointNotFoundError, match=r"there is no folder .*nowhere"):
        load_engine(config_of(tmp_path / "nowhere", "diffusion"))


def test_a_folder_without_config(copy: Path) -> None:
    (copy / "config.json").unlink()
    with pytest.raises(CheckpointNotFoundError, match=r"has no config\.json"):
        load_engine(config_of(copy, "diffusion"))


def test_a_config_that_is_not_json(copy: Path) -> None:
    (copy / "config.json").write_text("{")
    with pytest.raises(UnsupportedCheckpointError, match=r"config\.json cannot be read"):
        load_engine(config_of(copy, "diffusion"))


def test_a_folder_without_tokenizer(copy: Path) -> None:
    (copy / "tokenizer.json").unlink()
    (copy / "tokenizer_config.json").unlink()
    with pytest.raises(TokenizerError, match=r"has no tokenizer\.json"):
        load_engine(config_of(copy, "diffusion"))


def test_pickled_weights(copy: Path) -> None:
    torch.save({}, copy / "pytorch_model.bin")
    (copy / "model.safetensors").unlink()
    with pytest.raises(UnsupportedCheckpointError, match=r"pytorch_model\.bin is pickled"):
        load_engine(config_of(copy, "diffusion"))


def test_weights_that_are_not_all_there(copy: Path) -> None:
    weights = load_file(copy / "model.safetensors")
    lost = next(name for name in weights if "q_proj" in name)
    del weights[lost]
    save_file(weights, copy / "model.safetensors", metadata={"format": "pt"})
    with pytest.raises(UnsupportedCheckpointError, match=f"lacks .* {lost}"):
        load_engine(config_of(copy, "diffusion"))


def test_weights_whose_copy_was_interrupted(copy: Path) -> None:
    weights = copy / "model.safetensors"
    weights.write_bytes(weights.read_bytes()[:-100])
    with pytest.raises(UnsupportedCheckpointError, match=r"copy cannot be loaded: .*not fully covered"):
        load_engine(config_of(copy, "diffusion"))


@pytest.mark.parametrize("damage", [{"text_config": None}, {"canvas_length": "long"}])
def test_a_config_that_makes_no_model(copy: Path, damage: dict[str, object]) -> None:
    config = json.loads((copy / "config.json").read_text())
    (copy / "config.json").write_text(json.dumps(config | damage))
    with pytest.raises(CheckpointError, match="copy cannot be loaded"):
        load_engine(config_of(copy, "diffusion"))


@pytest.mark.parametrize("text", ["", '{"version": "1.0"', '{"added_tokens": [], "model": {"type": "Unknown"}}'])
def test_a_tokenizer_that_is_damaged(copy: Path, text: str) -> None:
    (copy / "tokenizer.json").write_text(text)
    with pytest.raises(TokenizerError, match="copy cannot be loaded"):
        load_engine(config_of(copy, "diffusion"))


def test_an_autoregressive_model_for_the_diffusion_engine(llama_folder: Path) -> None:
    with pytest.raises(UnsupportedCheckpointError, match="type llama"):
        load_engine(config_of(llama_folder, "diffusion"))


def test_a_diffusion_model_for_the_autoregressive_engine(diffusion_folder: Path) -> None:
    with pytest.raises(UnsupportedCheckpointError, match="DiffusionGemmaForBlockDiffusion"):
        load_engine(config_of(diffusion_folder, "ar"))


def test_a_sequence_limit_beyond_the_positions_of_the_model(diffusion_folder: Path) -> None:
    with pytest.raises(UnsupportedCheckpointError, match="513 is more than the 512 positions"):
        load_engine(config_of(diffusion_folder, "diffusion", max_sequence_length=513))


def test_a_sampler_for_another_kind_of_noise(diffusion_folder: Path) -> None:
    with pytest.raises(SamplerError, match="does not suit the sampler low_confidence; choose block_refinement"):
        load_engine(config_of(diffusion_folder, "diffusion", sampler={"name": "low_confidence"}))


def test_a_setting_that_the_sampler_does_not_know(diffusion_folder: Path) -> None:
    with pytest.raises(SamplerError, match="entropy_bound does not know stochasticity; leave it out, or choose"):
        load_engine(config_of(diffusion_folder, "diffusion", sampler={"stochasticity": 0.5}))


def test_sampler_settings_of_the_checkpoint_out_of_range(copy: Path) -> None:
    path = copy / "generation_config.json"
    path.write_text(json.dumps(json.loads(path.read_text()) | {"t_min": 0.0}))
    with pytest.raises(
        UnsupportedCheckpointError, match=r"(?s)generation_config\.json cannot be used.*temperature_min"
    ):
        load_engine(config_of(copy, "diffusion"))


@pytest.mark.parametrize("text", ["{", "[1]", ""])
def test_a_damaged_generation_config_is_not_taken_for_none(copy: Path, text: str) -> None:
    (copy / "generation_config.json").write_text(text)
    with pytest.raises(UnsupportedCheckpointError, match=r"generation_config\.json (cannot be read|does not hold)"):
        load_engine(config_of(copy, "diffusion"))


def test_an_end_that_is_no_token_is_refused_and_one_beyond_the_vocabulary_left_out(copy: Path) -> None:
    path = copy / "generation_config.json"
    written = json.loads(path.read_text())
    path.write_text(json.dumps(written | {"eos_token_id": [1, 100_000]}))
    assert load_diffusion_model(open_checkpoint(config_of(copy, "diffusion"))).eos_token_ids == {1}
    path.write_text(json.dumps(written | {"eos_token_id": "</s>"}))
    with pytest.raises(UnsupportedCheckpointError, match="eos_token_id must be token ids, not '</s>'"):
        load_engine(config_of(copy, "diffusion"))


def test_a_temperature_that_would_rise(diffusion_folder: Path) -> None:
    with pytest.raises(SamplerError, match=r"max is 0\.8 and min 0\.9"):
        load_engine(config_of(diffusion_folder, "diffusion", sampler={"temperature_min": 0.9}))


def test_a_device_that_is_not_there(diffusion_folder: Path) -> None:
    with pytest.raises(DeviceError, match="npu"):
        load_engine(config_of(diffusion_folder, "diffusion", device="npu"))


def test_auto_means_float32_on_a_cpu_even_for_a_bfloat16_checkpoint(copy: Path) -> None:
    config = json.loads((copy / "config.json").read_text())
    (copy / "config.json").write_text(json.dumps(config | {"dtype": "bfloat16"}))
    assert open_checkpoint(config_of(copy, "diffusion", device="cpu")).dtype == torch.float32
    assert open_checkpoint(config_of(copy, "diffusion", device="cpu", dtype="bfloat16")).dtype == torch.bfloat16
    with pytest.raises(DeviceError, match="int4"):
        open_checkpoint(config_of(copy, "diffusion", device="cpu", dtype="int4"))
