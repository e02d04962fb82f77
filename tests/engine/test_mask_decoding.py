"""Answers of mask models: those of the published loops, block by block, and each row on its own."""

from typing import Any

import pytest
import torch
from diffusion_worker.config import MaskCache
from diffusion_worker.engine.diffusion import DiffusionRunner
from diffusion_worker.engine.mask_diffusion import MaskDiffusionRunner
from diffusion_worker.models.diffusion import DiffusionModel
from diffusion_worker.models.mask_diffusion import MaskModel
from diffusion_worker.wire import GenerateRequest

from tests.engine.answers import request, running, send
from tests.engine.driving import Drive, tokens_of
from tests.engine.mask_checkpoints import MASK, dream_reference, llada_reference
from tests.engine.mask_reference import ReferenceLoop
from tests.engine.runners import WatchedRunner, diffusion_runner, mask_runner
from tests.engine.test_rows_are_independent import assert_independent

BLOCK = 16
CACHES = list(MaskCache)
PROMPTS = [[50], [60, 61, 62, 63] * 9, list(range(70, 83))]


@pytest.fixture(params=["llada", "dream"])
def model(request: pytest.FixtureRequest) -> MaskModel:
    """Either model."""
    found: MaskModel = request.getfixturevalue(f"{request.param}_model")
    return found


def reference_loop(model: MaskModel, **settings: Any) -> ReferenceLoop:
    """The published loop on the same weights."""
    shift = model._shift
    return ReferenceLoop(dream_reference() if shift else llada_reference(), shift, block_length=BLOCK, **settings)


def asks(prompt: list[int], name: str = "r", *, max_tokens: int = 2 * BLOCK, **fields: Any) -> GenerateRequest:
    """A greedy request."""
    return request(prompt, request_id=name, max_tokens=max_tokens, **({"temperature": 0} | fields))


def answers(runner: MaskDiffusionRunner, *requests: GenerateRequest) -> list[list[int]]:
    """Tokens of requests that share the engine from the beginning."""
    named = [each.model_copy(update={"request_id": str(i)}) for i, each in enumerate(requests)]
    return tokens_of(runner, named)


@pytest.mark.parametrize("cache", CACHES)
@pytest.mark.parametrize("steps", [4, 8])
def test_static_decoding_is_the_published_loop(model: MaskModel, cache: MaskCache, steps: int) -> None:
    loop = reference_loop(model, steps=steps, cache=cache)
    runner = mask_runner(model, cache=cache, max_denoising_steps=steps, accept_threshold=1)
    expected = [loop.generate(prompt, 2 * BLOCK) for prompt in PROMPTS]
    assert answers(runner, *map(asks, PROMPTS)) == expected
    assert len({token_id for each in expected for token_id in each}) > 5, "the test needs answers that differ"


@pytest.mark.parametrize("cache", CACHES)
def test_dynamic_decoding_is_the_published_loop(model: MaskModel, cache: MaskCache) -> None:
    """With as many steps as positions, so that only the threshold decides."""
    loop = reference_loop(model, steps=BLOCK, threshold=0.3, cache=cache)
    runner = mask_runner(model, cache=cache, max_denoising_steps=BLOCK, accept_threshold=0.3)
    drive = Drive(runner)
    for i, prompt in enumerate(PROMPTS):
        drive.admit(asks(prompt, str(i)))
    while drive.rows:
        drive.step()
    assert [drive.tokens(str(i)) for i in range(3)] == [loop.generate(prompt, 2 * BLOCK) for prompt in PROMPTS]
    assert max(commit.steps for commits in drive.commits.values() for commit in commits) < BLOCK


@pytest.mark.parametrize("cache", CACHES)
def test_guidance_is_lladas_with_the_prompt_masked(model: MaskModel, cache: MaskCache) -> None:
    loop = reference_loop(model, steps=8, cache=cache, guidance_scale=1.5)
    runner = mask_runner(model, cache=cache, max_denoising_steps=8, accept_threshold=1)
    plain, with_guidance, zero = answers(
        runner,
        asks(PROMPTS[1]),
        asks(PROMPTS[1], sampler={"guidance_scale": 1.5}),
        asks(PROMPTS[1], sampler={"guidance_scale": 0}),
    )
    assert with_guidance == loop.generate(PROMPTS[1], 2 * BLOCK)
    assert zero == plain != with_guidance


@pytest.mark.parametrize(
    ("architecture", "cache"),
    [("llada", MaskCache.NONE), ("llada", MaskCache.PREFIX), ("dream", MaskCache.PREFIX), ("dream", MaskCache.DUAL)],
)
def test_the_tokens_of_a_row_depend_on_nothing_outside_it(
    architecture: str, cache: MaskCache, request: pytest.FixtureRequest
) -> None:
    model: MaskModel = request.getfixturevalue(f"{architecture}_model")
    runner = mask_runner(
        model, cache=cache, max_batch_size=5, temperature_max=1, max_denoising_steps=4, accept_threshold=0.5
    )
    assert_independent(runner)


def test_sixty_four_rows_with_settings_of_their_own(llada_model: MaskModel) -> None:
    requests = [
        asks(
            PROMPTS[i % 3],
            seed=i,
            temperature=i % 4 / 2,
            top_p=1 - i % 3 / 5,
            max_tokens=5 + i % 30,
            sampler={
                "max_denoising_steps": 1 + i % 7,
                "guidance_scale": i % 2,
                "schedule": ["linear", "cosine"][i % 2],
            },
        )
        for i in range(64)
    ]
    together = answers(mask_runner(llada_model, max_batch_size=64), *requests)
    alone = [answers(mask_runner(llada_model, max_batch_size=1), each)[0] for each in requests[::9]]
    assert together[::9] == alone
    assert [len(tokens) for tokens in together] == [each.max_tokens for each in requests]


@pytest.mark.parametrize("max_tokens", [1, BLOCK - 1, BLOCK, BLOCK + 1, 3 * BLOCK])
def test_the_last_block_is_as_short_as_max_tokens_says(model: MaskModel, max_tokens: int) -> None:
    drive = Drive(mask_runner(model, max_denoising_steps=4, accept_threshold=1))
    drive.admit(asks(PROMPTS[0], max_tokens=max_tokens))
    while drive.rows:
        drive.step()
    lengths = [len(commit.token_ids) for commit in drive.commits["r"]]
    assert sum(lengths) == max_tokens
    assert lengths[:-1] == [BLOCK] * (len(lengths) - 1)
    assert [commit.steps for commit in drive.commits["r"]] == [min(4, length) for length in lengths]
    assert MASK not in drive.tokens("r")


def test_an_eos_ends_the_block_as_soon_as_nothing_before_it_is_open(llada_model: MaskModel) -> None:
    runner = mask_runner(llada_model, max_denoising_steps=BLOCK, accept_threshold=1)
    (whole,) = answers(runner, asks(PROMPTS[2]))
    runner.eos_token_ids = frozenset(whole[:3])
    drive = Drive(runner)
    drive.admit(asks(PROMPTS[2]))
    while drive.rows:
        drive.step()
    (commit,) = drive.commits["r"]
    assert commit.token_ids == whole[:1]
    assert commit.steps <= BLOCK
    assert runner.cache_bytes == 0


def test_temperature_and_top_p_change_what_is_drawn(llada_model: MaskModel) -> None:
    runner = mask_runner(llada_model, max_batch_size=8, temperature_max=1, temperature_min=1)
    greedy, again, drawn, other, narrow = answers(
        runner,
        asks(PROMPTS[1], seed=1),
        asks(PROMPTS[1], seed=2),
        asks(PROMPTS[1], seed=1, temperature=1),
        asks(PROMPTS[1], seed=2, temperature=1),
        asks(PROMPTS[1], seed=1, temperature=1, top_p=1e-6),
    )
    assert greedy == again == narrow
    assert len({tuple(greedy), tuple(drawn), tuple(other)}) == 3


@pytest.mark.parametrize(
    "sampler",
    [
        {"name": "entropy_bound"},
        {"name": "discrete_ddim"},
        {"adaptive": True},
        {"stochasticity": 0.5},
        {"entropy_bound": 0.1},
        {"stability_threshold": 2},
    ],
)
def test_what_low_confidence_cannot_honour_is_refused(llada_model: MaskModel, sampler: dict[str, object]) -> None:
    with running(mask_runner(llada_model)) as engine:
        (answer,) = send(engine, request(sampler=sampler))
    assert (answer.error.code, answer.error.param) == ("invalid_request", f"sampler.{next(iter(sampler))}")
    assert "low_confidence" in answer.error.message


def test_a_canvas_model_refuses_low_confidence_and_a_mask_model_what_needs_one_token_after_another(
    diffusion_model: DiffusionModel, llada_model: MaskModel
) -> None:
    canvases: DiffusionRunner = diffusion_runner(diffusion_model)
    with running(canvases) as engine:
        (answer,) = send(engine, request(sampler={"name": "low_confidence"}))
    assert (answer.error.code, answer.error.param) == ("invalid_request", "sampler.name")
    assert "entropy_bound" in answer.error.message
    with running(mask_runner(llada_model)) as engine:
        (answer,) = send(engine, request(logprobs=1))
    assert (answer.error.code, answer.error.param) == ("invalid_request", "logprobs")


@pytest.mark.parametrize("cache", CACHES)
def test_nothing_is_left_of_rows_that_ended_or_were_dropped(llada_model: MaskModel, cache: MaskCache) -> None:
    runner = mask_runner(llada_model, cache=cache, accept_threshold=1)
    drive = Drive(runner)
    rows = [drive.admit(asks(prompt, str(i), sampler={"guidance_scale": 1})) for i, prompt in enumerate(PROMPTS)]
    drive.step()
    drive.step()
    assert (runner.cache_bytes > 0) == (cache is not MaskCache.NONE)
    drive.drop(rows[1])
    while drive.rows:
        drive.step()
    runner.release(rows[0])
    assert runner.cache_bytes == 0


def test_the_cache_follows_the_formula_of_the_docs(model: MaskModel) -> None:
    """Prefix: the text before the block. Dual: all but the block. Dream recomputes the token before the block as well."""
    per_token = 2 * 2 * (4 if model._shift == 0 else 2) * 12 * 4  # layers, keys and values, heads, width, float32
    prompt, length = PROMPTS[1], 4 * BLOCK
    seen = {}
    for cache in (MaskCache.PREFIX, MaskCache.DUAL):
        runner = mask_runner(model, cache=cache, max_denoising_steps=2, accept_threshold=1)
        drive = Drive(runner)
        drive.admit(asks(prompt, max_tokens=length))
        seen[cache] = []
        while drive.rows:
            drive.step()  # a new block: everything is computed
            seen[cache].append(runner.cache_bytes)
            drive.step()
    text = [len(prompt) + block * BLOCK - model._shift for block in range(4)]
    assert seen[MaskCache.PREFIX] == [per_token * tokens for tokens in text]
    assert seen[MaskCache.DUAL] == [per_token * (len(prompt) + length - BLOCK - model._shift)] * 4


def test_a_block_that_begins_does_not_hold_up_more_than_its_turn(llada_model: MaskModel) -> None:
    """Beside a running row, whole sequences of newcomers take part one after another, as tokens allow."""
    runner = mask_runner(llada_model, max_batch_size=8, max_denoising_steps=16, accept_threshold=1)
    drive = Drive(runner)
    drive.admit(asks(PROMPTS[0], "first", max_tokens=3 * BLOCK))
    drive.step()
    late = [drive.admit(asks([5] * 400, str(i), max_tokens=BLOCK)) for i in range(4)]
    began = []
    for _ in range(3):
        drive.step()
        began.append(sum(row.canvas is not None and row.canvas.step > 0 for row in late))
    assert began == [2, 4, 4]
    while drive.rows:
        drive.step()
    assert all(drive.commits[str(i)][0].steps == BLOCK for i in range(4))


def test_a_row_whose_logits_are_nan_fails_alone(llada_model: MaskModel, monkeypatch: pytest.MonkeyPatch) -> None:
    original = llada_model.full_pass

    def with_nan(sequences: Any, **options: Any) -> Any:
        hidden, caches = original(sequences, **options)
        poisoned = torch.tensor([sequence.token_ids[0] == 9 for sequence in sequences])
        return hidden.masked_fill(poisoned[:, None, None], torch.nan), caches

    expected = answers(mask_runner(llada_model), asks(PROMPTS[0]))[0]
    monkeypatch.setattr(llada_model, "full_pass", with_nan)
    runner = mask_runner(llada_model)
    with running(runner, batch_window_seconds=0.1) as engine:
        good, bad = send(engine, asks(PROMPTS[0]), asks([9, 9]))
        assert bad.error.code == "non_finite"
        assert "NaN" in bad.error.message
        assert good.finish
    assert good.text == llada_model.tokenizer.decode(expected)
    assert runner.cache_bytes == 0


def test_a_step_that_raises_can_be_repeated(model: MaskModel, monkeypatch: pytest.MonkeyPatch) -> None:
    expected = answers(mask_runner(model), asks(PROMPTS[1], seed=7, temperature=1))[0]
    original, calls = model.logits, []

    def unsteady(hidden: torch.Tensor) -> torch.Tensor:
        calls.append(hidden)
        if len(calls) % 3 == 0:
            raise RuntimeError("out of memory")
        return original(hidden)

    monkeypatch.setattr(model, "logits", unsteady)
    with running(WatchedRunner(mask_runner(model, max_batch_size=1), lambda rows: None)) as engine:
        assert send(engine, request("x"))[0].ended.wait(60)
    drive = Drive(mask_runner(model))
    drive.admit(asks(PROMPTS[1], seed=7, temperature=1))
    while drive.rows:
        try:
            drive.step()
        except RuntimeError:
            continue
    assert drive.tokens("r") == expected
