"""What a request says about the denoising of its canvases, checked against what an engine can do."""

from diffusion_worker.engine.runner import UnsupportedParameterError
from diffusion_worker.samplers.errors import SamplerError
from diffusion_worker.samplers.settings import SamplerDefaults, Settings
from diffusion_worker.wire import GenerateRequest


def canvas_settings(defaults: SamplerDefaults, request: GenerateRequest) -> Settings:
    """The settings in force.

    UnsupportedParameterError for one that the request's sampler cannot honour, and for what only an autoregressive model
    can.
    """
    for param in request.autoregressive_only:
        raise UnsupportedParameterError(
            f"{param} needs a model that writes one token after another, and this one denoises whole canvases; "
            "leave it out, or send the request to an autoregressive arm",
            param=param,
        )
    try:
        settings = defaults.settings_for(request.sampler)
    except SamplerError as error:
        raise UnsupportedParameterError(str(error), param=f"sampler.{error.field}") from error
    return settings.shaped_by(temperature=request.temperature, top_p=request.top_p)
