"""docs/api.md names everything that a client may send."""

import re
from pathlib import Path

import pytest
from diffusion_gateway.openai.requests import ChatBody, CompletionBody
from diffusion_gateway.openai.unsupported import _NEUTRAL, HARMLESS
from diffusion_worker.config import SamplerName, SamplerSettings, Schedule

PAGE = (Path(__file__).parents[3] / "docs" / "api.md").read_text()
NAMED = set(re.findall(r"`([a-z_]+)`", PAGE))
# Parts of tools, which the page refuses as a whole.
OF_TOOLS = {"function_call", "parallel_tool_calls", "tool_choice"}


@pytest.mark.parametrize("name", sorted({*ChatBody.model_fields, *CompletionBody.model_fields} - {"stream_options"}))
def test_every_parameter_is_named(name: str) -> None:
    assert name in NAMED


@pytest.mark.parametrize("name", sorted({*_NEUTRAL, *HARMLESS} - OF_TOOLS))
def test_everything_that_is_refused_or_has_no_effect_is_named(name: str) -> None:
    assert name in NAMED


@pytest.mark.parametrize("name", [*SamplerSettings.model_fields, *SamplerName, *Schedule])
def test_every_setting_of_the_sampler_is_named(name: str) -> None:
    assert name in NAMED
