"""Checkpoints and models of the engine's tests, made once per session."""

from pathlib import Path

import pytest
import torch
from diffusion_worker.config import EngineConfig
from diffusion_worker.models.ar import ARModel, load_ar_model
from diffusion_worker.models.checkpoint import open_checkpoint
from diffusion_worker.models.diffusion import DiffusionModel, load_diffusion_model
from diffusion_worker.models.mask_diffusion import MaskModel, load_mask_model
from hypothesis import settings

from tests.engine.checkpoints import save_diffusion, save_gemma3, save_llama
from tests.engine.mask_checkpoints import save_dream, save_llada

torch.set_num_threads(1)
settings.register_profile("steady", deadline=None, derandomize=True)  # no test's outcome depends on time or chance
settings.load_profile("steady")


def config_of(folder: Path, kind: str, **settings: object) -> EngineConfig:
    """Configuration of an engine for a checkpoint folder."""
    return EngineConfig.model_validate(
        {"kind": kind, "model": "tiny", "revision": "0", "source": f"file://{folder}", "path": str(folder)} | settings
    )


@pytest.fixture(scope="session")
def diffusion_folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A DiffusionGemma checkpoint."""
    folder = tmp_path_factory.mktemp("diffusion")
    save_diffusion(folder)
    return folder


@pytest.fixture(scope="session")
def llama_folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A Llama checkpoint without chat template."""
    folder = tmp_path_factory.mktemp("llama")
    save_llama(folder)
    return folder


@pytest.fixture(scope="session")
def gemma3_folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A Gemma 3 checkpoint."""
    folder = tmp_path_factory.mktemp("gemma3")
    save_gemma3(folder)
    return folder


@pytest.fixture(scope="session")
def diffusion_model(diffusion_folder: Path) -> DiffusionModel:
    """The DiffusionGemma checkpoint in our engine."""
    return load_diffusion_model(open_checkpoint(config_of(diffusion_folder, "diffusion")))


@pytest.fixture(scope="session")
def llama_model(llama_folder: Path) -> ARModel:
    """The Llama checkpoint in our engine."""
    return load_ar_model(open_checkpoint(config_of(llama_folder, "ar")))


@pytest.fixture(scope="session")
def gemma3_model(gemma3_folder: Path) -> ARModel:
    """The Gemma 3 checkpoint in our engine."""
    return load_ar_model(open_checkpoint(config_of(gemma3_folder, "ar")))


@pytest.fixture(scope="session")
def llada_folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A LLaDA checkpoint."""
    folder = tmp_path_factory.mktemp("llada")
    save_llada(folder)
    return folder


@pytest.fixture(scope="session")
def dream_folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A Dream checkpoint in two shards."""
    folder = tmp_path_factory.mktemp("dream")
    save_dream(folder, shards=2)
    return folder


@pytest.fixture(scope="session")
def llada_model(llada_folder: Path) -> MaskModel:
    """The LLaDA checkpoint in our engine."""
    return load_mask_model(open_checkpoint(config_of(llada_folder, "diffusion")))


@pytest.fixture(scope="session")
def dream_model(dream_folder: Path) -> MaskModel:
    """The Dream checkpoint in our engine."""
    return load_mask_model(open_checkpoint(config_of(dream_folder, "diffusion")))
