"""From a LLaDA or Dream folder to an engine that streams answers, by the configuration that a worker gets."""

from pathlib import Path

import pytest
from diffusion_worker.engine import load_engine
from diffusion_worker.models.errors import CheckpointError
from diffusion_worker.samplers.errors import SamplerError
from diffusion_worker.wire import Message

from tests.engine.answers import request, send
from tests.engine.conftest import config_of


@pytest.fixture(params=["llada", "dream"])
def folder(request: pytest.FixtureRequest) -> Path:
    """Either checkpoint."""
    found: Path = request.getfixturevalue(f"{request.param}_folder")
    return found


@pytest.mark.parametrize("cache", ["none", "prefix", "dual"])
def test_answers_come_block_by_block(folder: Path, cache: str) -> None:
    settings = {"canvas_length": 8, "max_denoising_steps": 4, "accept_threshold": 1}
    engine = load_engine(config_of(folder, "diffusion", mask_cache=cache, sampler=settings))
    try:
        answer, again, chat = send(
            engine,
            request(max_tokens=20),
            request(max_tokens=20),
            request().model_copy(
                update={"prompt": None, "messages": [Message(role="user", content="the hen")], "max_tokens": 9}
            ),
        )
        assert answer.finish.prompt_tokens == 2
        assert answer.text == again.text
        for each, blocks in ((answer, 3), (chat, 2)):
            end = each.finish
            assert end.blocks <= blocks
            assert end.reason == "stop" or end.blocks == blocks
            assert sum(block.tokens for block in each.blocks) == end.completion_tokens
            assert all(block.steps <= 4 and block.converged for block in each.blocks)
        assert "<|" not in answer.text + chat.text
    finally:
        engine.close()


def test_blocks_of_thirty_two_without_settings(folder: Path) -> None:
    engine = load_engine(config_of(folder, "diffusion"))
    try:
        (answer,) = send(engine, request(max_tokens=70))
        assert answer.finish.steps >= answer.finish.blocks
        assert all(block.tokens <= 32 for block in answer.blocks)
        assert all(block.steps <= 20 for block in answer.blocks)
    finally:
        engine.close()


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"sampler": {"name": "entropy_bound"}}, "does not suit the sampler entropy_bound; choose low_confidence"),
        ({"sampler": {"confidence_threshold": 0.1}}, "low_confidence does not know confidence_threshold"),
        ({"full_attention_window": 64}, "full_attention_window is 64"),
        ({"max_sequence_length": 513}, "513 is more than the 512 positions"),
    ],
)
def test_a_resource_that_cannot_be_honoured_does_not_start(
    folder: Path, settings: dict[str, object], message: str
) -> None:
    with pytest.raises((SamplerError, CheckpointError), match=message):
        load_engine(config_of(folder, "diffusion", **settings))


def test_a_canvas_model_does_not_start_with_low_confidence(diffusion_folder: Path) -> None:
    with pytest.raises(SamplerError, match="does not suit the sampler low_confidence; choose block_refinement"):
        load_engine(config_of(diffusion_folder, "diffusion", sampler={"name": "low_confidence"}))


def test_a_mask_model_is_no_fallback(folder: Path) -> None:
    with pytest.raises(CheckpointError, match="the autoregressive engine serves"):
        load_engine(config_of(folder, "ar"))
