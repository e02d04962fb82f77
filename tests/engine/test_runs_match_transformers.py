"""A whole seeded run equals transformers' generate(), token for token, when both draw the same random numbers."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from unittest.mock import patch

import pytest
import torch
from diffusion_worker.models.ar import ARModel
from diffusion_worker.models.diffusion import DiffusionModel
from diffusion_worker.samplers.categorical import draw
from diffusion_worker.samplers.randomness import Stream, integers, row_key, uniforms
from transformers import AutoModelForCausalLM, DiffusionGemmaForBlockDiffusion
from transformers.models.diffusion_gemma import generation_diffusion_gemma as upstream

from tests.engine.answers import request, running, send
from tests.engine.checkpoints import CANVAS, VOCAB, WINDOW
from tests.engine.runners import ar_runner, diffusion_runner

CANVASES = 3


class OurRandomNumbers:
    """Stands in for torch's global generator in transformers' loop, with the numbers that our engine draws."""

    def __init__(self, seed: int) -> None:
        self.seed = seed
        self.canvas = -1
        self.step = 0

    def initialize_canvas(self, *_: object, **__: object) -> torch.Tensor:
        """Noise: called once at the start of a canvas, then once in each step."""
        return self._noise()

    def _key(self, stream: Stream) -> torch.Tensor:
        return torch.tensor([row_key(seed=self.seed, canvas=self.canvas, step=self.step, stream=stream)])

    def _noise(self) -> torch.Tensor:
        return integers(self._key(Stream.NOISE), CANVAS, high=VOCAB)

    def multinomial(self, probs: torch.Tensor, num_samples: int) -> torch.Tensor:
        """Sampled tokens; called once in each step, before that step's noise."""
        tokens = draw(probs[None], uniforms(self._key(Stream.SAMPLE), CANVAS))[0]
        self.step += 1
        return tokens[:, None]


@contextmanager
def drawing_our_numbers(seed: int) -> Iterator[None]:
    """Let transformers' sampler draw what our engine would for this seed."""
    numbers = OurRandomNumbers(seed)
    prepare = upstream.DiffusionGemmaGenerationMixin._prepare_denoiser_inputs

    def prepare_next_canvas(*args: object, **kwargs: object) -> object:
        numbers.canvas += 1
        numbers.step = 0
        return prepare(*args, **kwargs)

    with (
        patch.object(upstream.EntropyBoundSampler, "initialize_canvas", numbers.initialize_canvas),
        patch.object(upstream.DiffusionGemmaGenerationMixin, "_prepare_denoiser_inputs", prepare_next_canvas),
        patch.object(torch, "multinomial", numbers.multinomial),
        patch.object(torch.compiler, "cudagraph_mark_step_begin"),  # would import torch's compiler, to no effect here
    ):
        yield


SETTINGS = {
    "the checkpoint's own settings": {},
    "temperature near zero": {"t_min": 1e-4, "t_max": 2e-4},
    "stops only when stable for three steps": {"stability_threshold": 3, "confidence_threshold": 2.0},
    "stops as soon as it is confident": {"stability_threshold": 0, "confidence_threshold": 1.5},
    "accepts most positions": {"entropy_bound": 20.0, "max_denoising_steps": 5},
}
OUR_NAMES = {"t_min": "temperature_min", "t_max": "temperature_max"}


@pytest.mark.parametrize("settings", SETTINGS.values(), ids=SETTINGS.keys())
@pytest.mark.parametrize("prompt_length", [3, 2 * WINDOW])
def test_a_diffusion_run(
    diffusion_folder: Path, diffusion_model: DiffusionModel, settings: dict[str, float], prompt_length: int
) -> None:
    reference = DiffusionGemmaForBlockDiffusion.from_pretrained(diffusion_folder, dtype=torch.float32)
    prompt = torch.randint(3, VOCAB, (prompt_length,), generator=torch.Generator().manual_seed(4)).tolist()
    upstream_settings = {name: value for name, value in settings.items() if name != "entropy_bound"}
    if "entropy_bound" in settings:
        upstream_settings["sampler_config"] = upstream.EntropyBoundSamplerConfig(settings["entropy_bound"])
    reference.generation_config.eos_token_id = None
    with drawing_our_numbers(seed=11):
        output = reference.generate(
            torch.tensor([prompt]), max_new_tokens=CANVASES * CANVAS, eos_token_id=None, **upstream_settings
        )
    theirs = output.sequences[0, prompt_length:].tolist()

    runner = diffusion_runner(diffusion_model, **{OUR_NAMES.get(name, name): v for name, v in settings.items()})
    runner.eos_token_ids = frozenset()
    with running(runner) as engine:
        (answer,) = send(engine, request(prompt, max_tokens=CANVASES * CANVAS, seed=11))
        finish = answer.finish
    assert answer.text == diffusion_model.tokenizer.decode(theirs)
    assert finish.completion_tokens == len(theirs) == CANVASES * CANVAS
    assert finish.steps == pytest.approx(len(theirs) / output.tokens_per_forward.item())


@pytest.mark.parametrize("architecture", ["llama", "gemma3"])
def test_a_greedy_autoregressive_run(
    architecture: str, llama_folder: Path, gemma3_folder: Path, llama_model: ARModel, gemma3_model: ARModel
) -> None:
    folder, model = {"llama": (llama_folder, llama_model), "gemma3": (gemma3_folder, gemma3_model)}[architecture]
    reference = AutoModelForCausalLM.from_pretrained(folder, dtype=torch.float32)
    prompts = [
        torch.randint(3, VOCAB, (length,), generator=torch.Generator().manual_seed(length)).tolist()
        for length in (1, 6, 40)
    ]
    theirs = [
        reference.generate(
            torch.tensor([prompt]), max_new_tokens=40, do_sample=False, attention_mask=torch.ones(1, len(prompt))
        )[0, len(prompt) :]
        for prompt in prompts
    ]
    with running(ar_runner(model)) as engine:
        answers = send(engine, *(request(prompt, max_tokens=40, temperature=0) for prompt in prompts))
        for answer, tokens in zip(answers, theirs, strict=True):
            assert answer.finish.reason in ("stop", "length")
            assert answer.text == model.tokenizer.decode(tokens)
