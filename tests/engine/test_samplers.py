"""Samplers in the engine: every row by its own settings, in passes that all rows share."""

from collections.abc import Sequence
from typing import Any

import pytest
import torch
from diffusion_worker.engine.observer import PassKind
from diffusion_worker.models.diffusion import DiffusionModel
from diffusion_worker.wire import GenerateRequest

from tests.engine.answers import request, running, send
from tests.engine.checkpoints import CANVAS, VOCAB
from tests.engine.driving import Drive, tokens_of
from tests.engine.runners import diffusion_runner

MIXED = [
    request("the fox", request_id="bound", seed=1),
    request("the fox", request_id="cosine", seed=2, sampler={"schedule": "cosine", "adaptive": True}),
    request("the fox", request_id="ddpm", seed=3, sampler={"name": "discrete_ddim"}),
    request("the fox", request_id="ddim", seed=4, sampler={"name": "discrete_ddim", "stochasticity": 0.0}),
    request("the fox", request_id="fixed", seed=5, sampler={"name": "discrete_ddim", "deterministic": True}),
    request("the fox", request_id="block", seed=6, sampler={"name": "block_refinement", "max_denoising_steps": 5}),
    request("the fox", request_id="guided", seed=7, sampler={"guidance_scale": 0.8}),
    request("the fox", request_id="warm", seed=8, sampler={"temperature_min": 0.8, "temperature_max": 1.2}),
    request("the fox", request_id="narrow", seed=9, sampler={"top_p": 0.3}),
]


def with_sampler(**sampler: Any) -> GenerateRequest:
    """A request of one canvas with these sampler settings."""
    return request("the fox", max_tokens=CANVAS, sampler=sampler)


def tokens(model: DiffusionModel, each: GenerateRequest, **resource: Any) -> list[int]:
    """What a request commits when it is alone."""
    (found,) = tokens_of(diffusion_runner(model, **resource), [each])
    return found


def steps_of_canvases(model: DiffusionModel, each: GenerateRequest, **resource: Any) -> list[int]:
    """Denoising steps of each canvas of a request."""
    drive = Drive(diffusion_runner(model, **resource))
    drive.admit(each)
    while drive.rows:
        drive.step()
    return [commit.steps for commit in drive.commits[each.request_id]]


def test_rows_with_different_samplers_share_every_pass_and_answer_as_alone(diffusion_model: DiffusionModel) -> None:
    alone = [tokens(diffusion_model, each) for each in MIXED]
    assert len({tuple(each) for each in alone}) == len(MIXED)
    drive = Drive(diffusion_runner(diffusion_model, max_batch_size=len(MIXED)))
    for each in MIXED:
        drive.admit(each)
    while drive.rows:
        ready = len(drive.rows)
        drive.step()
        (denoised,) = [done.rows for done in drive.passes[-1] if done.kind == PassKind.DENOISE]
        assert denoised == ready
    assert [drive.tokens(each.request_id) for each in MIXED] == alone


@pytest.mark.parametrize("name", ["discrete_ddim", "block_refinement"])
@pytest.mark.parametrize("schedule", ["linear", "cosine"])
def test_a_grid_is_walked_to_its_end(diffusion_model: DiffusionModel, name: str, schedule: str) -> None:
    never_early = {"stability_threshold": 64} if name == "discrete_ddim" else {"accept_threshold": 1.0}
    each = with_sampler(name=name, schedule=schedule, max_denoising_steps=4, **never_early)
    assert steps_of_canvases(diffusion_model, each) == [4]


def test_an_adaptive_grid_takes_fewer_steps_once_the_canvas_has_settled(diffusion_model: DiffusionModel) -> None:
    sampler = {"max_denoising_steps": 40, "stability_threshold": 64, "temperature_min": 0.01, "temperature_max": 0.02}
    (fixed,) = steps_of_canvases(diffusion_model, with_sampler(**sampler))
    (adaptive,) = steps_of_canvases(diffusion_model, with_sampler(**sampler, adaptive=True))
    assert fixed == 40
    assert adaptive < 20


def test_block_refinement_does_not_stop_on_thresholds_that_it_does_not_know(
    diffusion_model: DiffusionModel, monkeypatch: pytest.MonkeyPatch
) -> None:
    def sure(cache: Any, slots: Any, lengths: Any, canvas: torch.Tensor, soft_embedding: Any) -> torch.Tensor:
        logits = torch.zeros(*canvas.shape, VOCAB)
        logits[..., 9] = 1000.0
        return logits

    monkeypatch.setattr(diffusion_model, "denoise", sure)
    sampler = {"schedule": "linear", "max_denoising_steps": 8, "accept_threshold": 1.0}  # no token is likelier than 1
    assert steps_of_canvases(diffusion_model, with_sampler(name="block_refinement", **sampler)) == [8]
    del sampler["accept_threshold"]
    assert steps_of_canvases(diffusion_model, with_sampler(**sampler)) == [2]


def test_block_refinement_ends_once_every_position_is_accepted(diffusion_model: DiffusionModel) -> None:
    each = with_sampler(name="block_refinement", max_denoising_steps=20, accept_threshold=1e-6)
    assert steps_of_canvases(diffusion_model, each) == [1]


@pytest.mark.parametrize("name", ["entropy_bound", "discrete_ddim", "block_refinement"])
def test_a_deterministic_answer_does_not_depend_on_the_seed_and_says_so(
    diffusion_model: DiffusionModel, name: str
) -> None:
    sampler = {"name": name, "deterministic": True}
    with running(diffusion_runner(diffusion_model)) as engine:
        answers = send(engine, *(request(seed=seed, sampler=sampler) for seed in (1, 2, None)))
        assert [answer.finish.seed for answer in answers] == [0, 0, 0]
    assert len({answer.text for answer in answers}) == 1


def test_a_deterministic_run_of_the_default_sampler_is_the_greedy_run_of_seed_0(
    diffusion_model: DiffusionModel,
) -> None:
    deterministic = tokens(diffusion_model, with_sampler(deterministic=True))
    greedy = request("the fox", max_tokens=CANVAS, seed=0, temperature=0.0)
    assert tokens(diffusion_model, greedy) == deterministic


@pytest.mark.parametrize("name", ["entropy_bound", "discrete_ddim", "block_refinement"])
def test_the_narrowest_nucleus_is_the_greedy_draw(diffusion_model: DiffusionModel, name: str) -> None:
    narrow = request(seed=3, sampler={"name": name, "top_p": 1e-6})
    greedy = request(seed=3, temperature=0.0, sampler={"name": name})
    assert tokens(diffusion_model, narrow) == tokens(diffusion_model, greedy)


def test_the_schedules_temperature_and_openais_multiply(diffusion_model: DiffusionModel) -> None:
    halved = request(seed=3, sampler={"temperature_min": 0.2, "temperature_max": 0.4})  # the checkpoint has 0.4 to 0.8
    assert tokens(diffusion_model, halved) == tokens(diffusion_model, request(seed=3, temperature=0.5))
    assert tokens(diffusion_model, halved) != tokens(diffusion_model, request(seed=3))


def test_the_resource_may_say_what_a_request_may_say(diffusion_model: DiffusionModel) -> None:
    sampler = {"name": "discrete_ddim", "max_denoising_steps": 5, "stochasticity": 0.5}
    by_request = tokens(diffusion_model, request(seed=3, sampler=sampler))
    assert tokens(diffusion_model, request(seed=3), **sampler) == by_request


def test_a_setting_that_the_sampler_does_not_know_is_refused_by_name(diffusion_model: DiffusionModel) -> None:
    with running(diffusion_runner(diffusion_model)) as engine:
        (answer,) = send(engine, with_sampler(name="block_refinement", entropy_bound=0.3))
        assert (answer.error.code, answer.error.param) == ("invalid_request", "sampler.entropy_bound")
        assert "choose the sampler entropy_bound" in answer.error.message


@pytest.mark.parametrize("canvas_length", [8, CANVAS - 3, 2 * CANVAS])
def test_canvases_may_be_shorter_or_longer_than_the_trained_ones(
    diffusion_model: DiffusionModel, canvas_length: int
) -> None:
    runner = diffusion_runner(diffusion_model, canvas_length=canvas_length)
    runner.eos_token_ids = frozenset()
    with running(runner) as engine:
        (answer,) = send(engine, request(max_tokens=3 * canvas_length))
        assert answer.finish.completion_tokens == 3 * canvas_length
    assert [block.tokens for block in answer.blocks] == [canvas_length] * 3


class SeenPasses:
    """The model, which notes how many canvases each pass denoised."""

    def __init__(self, model: DiffusionModel, monkeypatch: pytest.MonkeyPatch) -> None:
        self.rows: list[int] = []
        original = model.denoise

        def denoise(cache: Any, slots: Sequence[int], *rest: Any) -> torch.Tensor:
            self.rows.append(len(slots))
            return original(cache, slots, *rest)

        monkeypatch.setattr(model, "denoise", denoise)


def test_guidance_of_zero_is_no_guidance_and_costs_no_row(
    diffusion_model: DiffusionModel, monkeypatch: pytest.MonkeyPatch
) -> None:
    without = tokens(diffusion_model, request(seed=3))
    seen = SeenPasses(diffusion_model, monkeypatch)
    assert tokens(diffusion_model, request(seed=3, sampler={"guidance_scale": 0.0})) == without
    assert set(seen.rows) == {1}


def test_only_guided_rows_take_part_twice(diffusion_model: DiffusionModel, monkeypatch: pytest.MonkeyPatch) -> None:
    seen = SeenPasses(diffusion_model, monkeypatch)
    each = [request(request_id="plain", seed=3), request(request_id="guided", seed=3, sampler={"guidance_scale": 0.8})]
    plain, guided = tokens_of(diffusion_runner(diffusion_model), each)
    assert seen.rows[0] == 3
    assert plain == tokens(diffusion_model, request(seed=3))
    assert guided != plain


def test_guidance_without_a_prompt_to_hide_changes_nothing(diffusion_model: DiffusionModel) -> None:
    # Of a prompt of one token nothing is hidden: the first token always stays in view.
    guided = request([5], max_tokens=CANVAS, sampler={"guidance_scale": 3.0})
    assert tokens(diffusion_model, guided) == tokens(diffusion_model, request([5], max_tokens=CANVAS))
