"""What each setting does for each sampler. A setting that is not listed for a sampler is refused with it.

The table in `docs/samplers.md` is made from this one.
"""

from collections.abc import Mapping

from diffusion_worker.config import SamplerName, SamplerSettings

UNIFORM_NOISE_SAMPLERS = (SamplerName.ENTROPY_BOUND, SamplerName.DISCRETE_DDIM, SamplerName.BLOCK_REFINEMENT)
"""For models whose noise is random tokens (diffusion_gemma)."""

MASK_SAMPLERS = (SamplerName.LOW_CONFIDENCE,)
"""For models whose noise is a mask token (LLaDA, Dream)."""

_EVERY_SAMPLER = {
    "temperature_min": "divides the logits at the end of the grid; the draw, the entropies and the self-conditioning follow",
    "temperature_max": "the same in the first step; between the two the temperature follows the grid",
    "top_p": "tokens are drawn from the smallest set with this mass; entropies are of the whole distribution",
    "guidance_scale": "w: logits = uncond + (1 + w)(cond - uncond); 0 is off and costs nothing",
}
_EARLY_STOP = {
    "stability_threshold": "the canvas may be committed once its most likely tokens were the same for this many steps",
    "confidence_threshold": "and once its mean entropy is below this",
}

EFFECTS: Mapping[SamplerName, Mapping[str, str]] = {
    SamplerName.ENTROPY_BOUND: {
        "max_denoising_steps": "cap on the steps of a canvas",
        "schedule": "spacing of the temperatures",
        "adaptive": "a canvas that has settled skips to lower temperatures",
        **_EVERY_SAMPLER,
        "deterministic": "most likely tokens; seed 0 gives the first canvas and the new noise",
        **_EARLY_STOP,
        "entropy_bound": "nats that are accepted in one step; more is faster and worse",
    },
    SamplerName.DISCRETE_DDIM: {
        "max_denoising_steps": "steps of the time grid",
        "schedule": "spacing of the noise levels and temperatures",
        "adaptive": "a canvas that has settled skips noise levels",
        **_EVERY_SAMPLER,
        "deterministic": "most likely tokens, and DDIM whose least certain positions stay as they are; "
        "seed 0 gives the first canvas",
        "stochasticity": "0: DDIM, noise stays what it is; 1: DDPM, the posterior of the Markov chain; between: a mixture",
        **_EARLY_STOP,
    },
    SamplerName.BLOCK_REFINEMENT: {
        "max_denoising_steps": "steps in which all positions are accepted",
        "schedule": "spacing of the quotas (cosine: many positions early) and temperatures",
        "adaptive": "a canvas that has settled skips to larger quotas",
        **_EVERY_SAMPLER,
        "deterministic": "most likely tokens; seed 0 gives the first canvas and the new noise",
        "accept_threshold": "a token above this probability is accepted beyond the step's quota; 1: never",
    },
    SamplerName.LOW_CONFIDENCE: {
        "max_denoising_steps": "steps in which all positions are unmasked",
        "schedule": "spacing of the quotas (cosine: many positions early) and temperatures",
        "temperature_min": "divides the logits that tokens are drawn from in the last step; confidence is at temperature 1",
        "temperature_max": "the same in the first step; between the two the temperature follows the grid",
        "top_p": "tokens are drawn from the smallest set with this mass",
        "guidance_scale": "w: logits = uncond + (1 + w)(cond - uncond), without condition the prompt is all masks; "
        "0 is off and costs nothing",
        "deterministic": "most likely tokens",
        "accept_threshold": "a token above this probability is kept beyond the step's quota (dynamic); 1: never (static)",
    },
}


def table() -> str:
    """The table of `docs/samplers.md`, in Markdown: what each setting does for each sampler."""
    lines = [f"| setting | {' | '.join(EFFECTS)} |", "|---" * (len(EFFECTS) + 1) + "|"]
    for setting in SamplerSettings.model_fields:
        cells = [known.get(setting, "refused") for known in EFFECTS.values()]
        if setting != "name":
            lines.append(f"| `{setting}` | {' | '.join(cells)} |")
    return "\n".join(lines)
