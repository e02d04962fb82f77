"""`spec.sampler`, model.json and the API's `sampler` are one thing: the same settings, the same bounds."""

from typing import Any

import pytest
from diffusion_operator.api.sampler import Sampler
from diffusion_operator.api.schema import structural
from diffusion_worker.config import EngineConfig, SamplerConfig, SamplerSettings
from diffusion_worker.samplers.capabilities import EFFECTS
from diffusion_worker.wire import GenerateRequest
from pydantic import ConfigDict
from pydantic.alias_generators import to_camel

BOUNDS = ("type", "minimum", "maximum", "exclusiveMinimum", "enum")


class Readable(SamplerConfig):
    """SamplerConfig as the CRD generator can read it: a structural schema cannot forbid other fields."""

    model_config = ConfigDict(extra="ignore")


CONFIG = structural(Readable)["properties"]
SPEC = structural(Sampler)["properties"]
# In the resource both ends of the temperature are one object.
IN_SPEC = {
    "temperature_min": SPEC["temperature"]["properties"]["min"],
    "temperature_max": SPEC["temperature"]["properties"]["max"],
} | {name: SPEC[to_camel(name)] for name in CONFIG if not name.startswith("temperature_")}


def bounds(schema: dict[str, Any]) -> dict[str, Any]:
    return {keyword: schema[keyword] for keyword in BOUNDS if keyword in schema}


@pytest.mark.parametrize("name", SamplerConfig.model_fields)
def test_the_resource_has_the_bounds_that_the_worker_has(name: str) -> None:
    assert bounds(IN_SPEC[name]) == bounds(CONFIG[name])
    assert bounds(CONFIG[name]), "a setting without a type or a bound"


def test_the_resource_has_no_setting_that_the_worker_does_not_have() -> None:
    assert len(SPEC) - 1 == len(SamplerConfig.model_fields) - 2  # temperature stands for two


def test_requests_and_resources_are_bounded_by_the_same_model() -> None:
    assert issubclass(SamplerConfig, SamplerSettings)
    assert GenerateRequest.model_fields["sampler"].annotation is SamplerSettings
    assert EngineConfig.model_fields["sampler"].annotation is SamplerConfig


def test_no_setting_waits_to_be_acted_on() -> None:
    assert [name for name, schema in SPEC.items() if "Not acted on" in schema["description"]] == []


@pytest.mark.parametrize("name", EFFECTS)
def test_every_setting_that_a_sampler_does_not_know_is_refused_with_it(name: str) -> None:
    rules = [rule["rule"] for rule in structural(Sampler)["x-kubernetes-validations"] if f"'{name}'" in rule["rule"]]
    settings = {
        setting for setting in SamplerSettings.model_fields if setting != "name" and "temperature" not in setting
    }
    (rule,) = rules
    assert {setting for setting in settings if f"has(self.{to_camel(setting)})" in rule} == settings - EFFECTS[
        name
    ].keys()
