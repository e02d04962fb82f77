"""Which settings are in force for a row: its request's, else its resource's, else its checkpoint's."""

from collections.abc import Collection, Sequence
from dataclasses import dataclass, replace
from typing import Any

from diffusion_worker.config import SamplerName, SamplerSettings, Schedule
from diffusion_worker.samplers.capabilities import EFFECTS
from diffusion_worker.samplers.errors import SamplerError


@dataclass(frozen=True)
class Settings:
    """Everything that the denoising of one row depends on. What its sampler does not know has no effect."""

    name: SamplerName
    max_denoising_steps: int = 20
    schedule: Schedule = Schedule.LINEAR
    adaptive: bool = False
    temperature_min: float = 0.4
    temperature_max: float = 0.8
    top_p: float = 1.0
    guidance_scale: float = 0.0
    deterministic: bool = False
    stochasticity: float = 1.0
    stability_threshold: int = 1
    confidence_threshold: float = 0.005
    entropy_bound: float = 0.1
    accept_threshold: float = 0.95
    greedy: bool = False  # take the most likely tokens instead of drawing

    @property
    def stops_early(self) -> bool:
        """Whether the sampler commits a canvas before its last step once that is stable and confident."""
        return "stability_threshold" in EFFECTS[self.name]

    def shaped_by(self, *, temperature: float, top_p: float) -> "Settings":
        """These settings under OpenAI's parameters: `temperature` multiplies the schedule's, `top_p` can only narrow.

        At temperature 0 the draw is greedy and the schedule stays as it is: at a true 0 every entropy were 0 too, and
        all positions would be accepted at once, however unsure.
        """
        factor = temperature or 1.0
        return replace(
            self,
            temperature_min=self.temperature_min * factor,
            temperature_max=self.temperature_max * factor,
            top_p=min(self.top_p, top_p),
            greedy=self.deterministic or temperature == 0,
        )


_PRESETS: dict[SamplerName, dict[str, Any]] = {
    SamplerName.DISCRETE_DDIM: {"max_denoising_steps": 20, "schedule": Schedule.COSINE},
    SamplerName.BLOCK_REFINEMENT: {"max_denoising_steps": 20, "schedule": Schedule.COSINE},
}
"""Instead of the checkpoint's settings, which were made for another sampler."""


@dataclass(frozen=True)
class SamplerDefaults:
    """What the requests of one worker start from."""

    checkpoint: SamplerSettings  # has a name
    resource: SamplerSettings
    offered: Collection[SamplerName]  # that suit the model's kind of noise

    def settings_for(self, request: SamplerSettings) -> Settings:
        """Settings in force for a request. SamplerError names the setting that cannot be honoured."""
        name = self.checkpoint.name
        if name is None:
            raise ValueError("the checkpoint's settings must name its sampler")
        given: list[dict[str, Any]] = []
        for layer in (self.resource, request):
            name = layer.name or name
            given.append(_given(layer))
            _check(name, given[-1], self.offered)
        values = _given(self.checkpoint)
        if name != self.checkpoint.name:
            values |= _PRESETS[name]
        for layer_values in given:
            values |= layer_values
        # What a lower layer says about another sampler is not meant for this one.
        settings = Settings(name=name, **{field: value for field, value in values.items() if field in EFFECTS[name]})
        _check_temperatures(settings, given)
        return _without_chance(settings, given)


def _given(layer: SamplerSettings) -> dict[str, Any]:
    """The settings that a layer makes, apart from the sampler's name."""
    values = ((field, getattr(layer, field)) for field in SamplerSettings.model_fields if field != "name")
    return {field: value for field, value in values if value is not None}


def _check(name: SamplerName, given: dict[str, Any], offered: Collection[SamplerName]) -> None:
    if name not in offered:
        raise SamplerError(
            "name", f"this model's noise does not suit the sampler {name}; choose {_one_of(sorted(offered))}"
        )
    for field in given:
        if field not in EFFECTS[name]:
            knowing = [other for other in offered if field in EFFECTS[other]]
            remedy = f", or choose the sampler {_one_of(knowing)}" if knowing else ""
            raise SamplerError(field, f"the sampler {name} does not know {field}; leave it out{remedy}")


def _check_temperatures(settings: Settings, given: Sequence[dict[str, Any]]) -> None:
    low, high = settings.temperature_min, settings.temperature_max
    if low > high:
        field = next((field for layer in reversed(given) for field in layer if field.startswith("temperature_")), "")
        raise SamplerError(
            field or "temperature_min",
            f"the temperature falls from temperature_max to temperature_min, but max is {high} and min {low}; "
            "set both, max not below min",
        )


def _without_chance(settings: Settings, given: Sequence[dict[str, Any]]) -> Settings:
    """DDIM where `deterministic` is in force; refused when a setting that is as near asks for chance."""
    if not settings.deterministic:
        return settings
    for layer in reversed(given):
        if layer.get("stochasticity", 0) > 0:
            raise SamplerError(
                "stochasticity",
                f"a deterministic run draws nothing, but stochasticity is {settings.stochasticity}; "
                "leave one of the two out, or set deterministic to false",
            )
        if "deterministic" in layer:
            break
    return replace(settings, stochasticity=0.0)


def _one_of(names: Sequence[str]) -> str:
    *others, last = names
    return f"{', '.join(others)} or {last}" if others else last
