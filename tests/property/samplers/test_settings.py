"""A request's settings go before its resource's, those before its checkpoint's; what has no effect is refused."""

from typing import Any

import pytest
from diffusion_worker.config import SamplerConfig, SamplerName, SamplerSettings, Schedule
from diffusion_worker.samplers.capabilities import EFFECTS, UNIFORM_NOISE_SAMPLERS
from diffusion_worker.samplers.errors import SamplerError
from diffusion_worker.samplers.settings import SamplerDefaults, Settings

CHECKPOINT = {
    "name": "entropy_bound",
    "max_denoising_steps": 48,
    "temperature_min": 0.4,
    "temperature_max": 0.8,
    "entropy_bound": 0.1,
    "stability_threshold": 1,
    "confidence_threshold": 0.005,
}
VALUES: dict[str, Any] = {
    "max_denoising_steps": 7,
    "schedule": "cosine",
    "adaptive": True,
    "temperature_min": 0.3,
    "temperature_max": 0.9,
    "top_p": 0.7,
    "guidance_scale": 0.8,
    "deterministic": True,
    "stochasticity": 0.25,
    "stability_threshold": 3,
    "confidence_threshold": 0.2,
    "entropy_bound": 0.6,
    "accept_threshold": 0.85,
}


def settings_of(resource: dict[str, Any] | None = None, request: dict[str, Any] | None = None) -> Settings:
    """What is in force for a request to a resource, both given as in JSON."""
    defaults = SamplerDefaults(
        checkpoint=SamplerSettings.model_validate(CHECKPOINT),
        resource=SamplerConfig.model_validate(resource or {}),
        offered=UNIFORM_NOISE_SAMPLERS,
    )
    return defaults.settings_for(SamplerSettings.model_validate(request or {}))


def test_every_setting_of_a_request_is_tried_below() -> None:
    assert {"name", *VALUES} == set(SamplerSettings.model_fields)


def test_without_settings_the_checkpoint_decides() -> None:
    settings = settings_of()
    assert {field: getattr(settings, field) for field in CHECKPOINT} == CHECKPOINT
    assert (settings.schedule, settings.adaptive, settings.guidance_scale) == (Schedule.LINEAR, False, 0)


def test_the_request_goes_before_the_resource_and_that_before_the_checkpoint() -> None:
    settings = settings_of({"max_denoising_steps": 30, "entropy_bound": 0.2}, {"max_denoising_steps": 12})
    assert (settings.max_denoising_steps, settings.entropy_bound, settings.temperature_max) == (12, 0.2, 0.8)


@pytest.mark.parametrize("name", UNIFORM_NOISE_SAMPLERS)
@pytest.mark.parametrize("field", VALUES)
@pytest.mark.parametrize("place", ["resource", "request"])
def test_a_setting_is_in_force_or_refused(name: SamplerName, field: str, place: str) -> None:
    given = {place: {"name": name, field: VALUES[field]}}
    if field in EFFECTS[name]:
        assert getattr(settings_of(**given), field) == VALUES[field]
    else:
        with pytest.raises(SamplerError, match=f"{name} does not know {field}; leave it out") as caught:
            settings_of(**given)
        assert caught.value.field == field


def test_a_refusal_names_the_samplers_that_know_the_setting() -> None:
    with pytest.raises(SamplerError, match="choose the sampler entropy_bound or discrete_ddim"):
        settings_of(request={"name": "block_refinement", "stability_threshold": 2})


def test_another_sampler_drops_what_only_the_resources_own_knows() -> None:
    resource = {"name": "entropy_bound", "entropy_bound": 0.3, "max_denoising_steps": 16}
    settings = settings_of(resource, {"name": "block_refinement"})
    assert settings.name == "block_refinement"
    assert settings.max_denoising_steps == 16
    assert settings.entropy_bound == Settings(name=SamplerName.ENTROPY_BOUND).entropy_bound


@pytest.mark.parametrize("name", ["discrete_ddim", "block_refinement"])
def test_another_sampler_than_the_checkpoints_has_twenty_steps_on_a_cosine_grid(name: str) -> None:
    settings = settings_of(request={"name": name})
    assert (settings.max_denoising_steps, settings.schedule) == (20, Schedule.COSINE)
    assert (settings.temperature_min, settings.temperature_max) == (0.4, 0.8)


def test_a_model_without_a_mask_token_does_not_unmask() -> None:
    with pytest.raises(
        SamplerError, match="noise does not suit the sampler low_confidence; choose block_ref"
    ) as caught:
        settings_of(request={"name": "low_confidence"})
    assert caught.value.field == "name"


def test_a_temperature_that_would_rise_is_refused() -> None:
    with pytest.raises(SamplerError, match=r"max is 0\.8 and min 0\.9") as caught:
        settings_of(request={"temperature_min": 0.9})
    assert caught.value.field == "temperature_min"


def test_deterministic_means_ddim() -> None:
    assert settings_of(request={"name": "discrete_ddim", "deterministic": True}).stochasticity == 0
    assert settings_of(request={"name": "discrete_ddim"}).stochasticity == 1


@pytest.mark.parametrize(
    ("resource", "request_"),
    [
        ({}, {"deterministic": True, "stochasticity": 0.5}),
        ({"deterministic": True}, {"stochasticity": 0.5}),
    ],
)
def test_chance_in_a_deterministic_run_is_refused(resource: dict[str, Any], request_: dict[str, Any]) -> None:
    with pytest.raises(SamplerError, match=r"stochasticity is 0\.5") as caught:
        settings_of({"name": "discrete_ddim"} | resource, request_)
    assert caught.value.field == "stochasticity"


def test_a_request_may_make_a_random_resource_deterministic_and_back() -> None:
    random = {"name": "discrete_ddim", "stochasticity": 0.5}
    assert settings_of(random, {"deterministic": True}).stochasticity == 0
    fixed = {"name": "discrete_ddim", "deterministic": True}
    assert settings_of(fixed, {"deterministic": False, "stochasticity": 0.5}).stochasticity == 0.5


def test_openais_temperature_multiplies_the_schedules() -> None:
    settings = settings_of().shaped_by(temperature=0.5, top_p=1.0)
    assert (settings.temperature_min, settings.temperature_max, settings.greedy) == (0.2, 0.4, False)


def test_temperature_zero_is_greedy_on_the_same_schedule() -> None:
    settings = settings_of().shaped_by(temperature=0.0, top_p=1.0)
    assert (settings.temperature_min, settings.temperature_max, settings.greedy) == (0.4, 0.8, True)


@pytest.mark.parametrize(("own", "openai"), [(0.5, 0.9), (0.9, 0.5)])
def test_the_narrower_nucleus_counts(own: float, openai: float) -> None:
    assert settings_of(request={"top_p": own}).shaped_by(temperature=1.0, top_p=openai).top_p == 0.5
