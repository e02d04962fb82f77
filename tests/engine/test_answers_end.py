"""Where an answer ends: max_tokens exactly, at EOS, at a stop string; and what is counted."""

import pytest
from diffusion_worker.engine.ar import ARRunner
from diffusion_worker.engine.diffusion import DiffusionRunner
from diffusion_worker.models.ar import ARModel
from diffusion_worker.models.diffusion import DiffusionModel
from diffusion_worker.quality import degeneration

from tests.engine.answers import Answer, request, running, send
from tests.engine.checkpoints import CANVAS
from tests.engine.runners import ar_runner, diffusion_runner


@pytest.fixture(params=["diffusion", "ar"])
def runner(
    request: pytest.FixtureRequest, diffusion_model: DiffusionModel, llama_model: ARModel
) -> DiffusionRunner | ARRunner:
    """Either engine, without EOS, so that answers have the length that is asked for."""
    either = diffusion_runner(diffusion_model) if request.param == "diffusion" else ar_runner(llama_model)
    either.eos_token_ids = frozenset()
    return either


def answer_of(runner: DiffusionRunner | ARRunner, **fields: object) -> Answer:
    """The answer to one request."""
    with running(runner) as engine:
        (answer,) = send(engine, request(**fields))
        assert answer.finish
    return answer


def token_ids_of(runner: DiffusionRunner | ARRunner, max_tokens: int) -> list[int]:
    """What the runner commits for the request that `answer_of` sends."""
    token_ids: list[int] = []
    step = runner.step

    def listening_step(rows):  # type: ignore[no-untyped-def]
        result = step(rows)
        token_ids.extend(token_id for commit in result.commits for token_id in commit.token_ids)
        return result

    runner.step = listening_step  # type: ignore[method-assign]
    answer_of(runner, max_tokens=max_tokens)
    runner.step = step  # type: ignore[method-assign]
    return token_ids


@pytest.mark.parametrize("max_tokens", [1, CANVAS - 1, CANVAS, CANVAS + 1, 3 * CANVAS])
def test_max_tokens_is_exact(runner: DiffusionRunner | ARRunner, max_tokens: int) -> None:
    answer = answer_of(runner, max_tokens=max_tokens)
    assert answer.finish.reason == "length"
    assert answer.finish.completion_tokens == max_tokens
    assert sum(block.tokens for block in answer.blocks) == max_tokens


def test_a_shorter_answer_is_the_beginning_of_a_longer_one(runner: DiffusionRunner | ARRunner) -> None:
    longer = token_ids_of(runner, max_tokens=3 * CANVAS)
    shorter = answer_of(runner, max_tokens=CANVAS + 3)
    assert shorter.text == runner.tokenizer.decode(longer[: CANVAS + 3])


@pytest.mark.parametrize("position", [0, 1, CANVAS - 1, CANVAS, CANVAS + 5])
def test_eos_ends_the_answer_and_is_not_part_of_it(runner: DiffusionRunner | ARRunner, position: int) -> None:
    token_ids = token_ids_of(runner, max_tokens=2 * CANVAS)
    end = token_ids.index(token_ids[position])
    runner.eos_token_ids = frozenset({token_ids[position], 0})
    answer = answer_of(runner, max_tokens=2 * CANVAS)
    assert answer.finish.reason == "stop"
    assert answer.finish.completion_tokens == end
    assert answer.text == runner.tokenizer.decode(token_ids[:end])


def test_blocks_count_their_steps(runner: DiffusionRunner | ARRunner) -> None:
    answer = answer_of(runner, max_tokens=2 * CANVAS)
    assert [block.index for block in answer.blocks] == list(range(len(answer.blocks)))
    assert answer.finish.blocks == len(answer.blocks)
    assert answer.finish.steps == sum(block.steps for block in answer.blocks)


def test_a_diffusion_answer_has_one_block_for_each_canvas(diffusion_model: DiffusionModel) -> None:
    runner = diffusion_runner(diffusion_model, max_denoising_steps=3, confidence_threshold=1e-9)
    runner.eos_token_ids = frozenset()
    answer = answer_of(runner, max_tokens=2 * CANVAS + 1)
    assert [(block.tokens, block.steps, block.converged) for block in answer.blocks] == [
        (CANVAS, 3, False),
        (CANVAS, 3, False),
        (1, 3, False),
    ]


@pytest.mark.parametrize("name", ["discrete_ddim", "block_refinement"])
def test_a_canvas_whose_steps_are_planned_to_the_last_is_not_capped_by_it(
    diffusion_model: DiffusionModel, name: str
) -> None:
    runner = diffusion_runner(diffusion_model, name=name, max_denoising_steps=3)
    runner.eos_token_ids = frozenset()
    answer = answer_of(runner, max_tokens=CANVAS)
    assert [(block.steps, block.converged) for block in answer.blocks] == [(3, True)]


def test_an_answer_says_how_much_it_repeats_itself(runner: DiffusionRunner | ARRunner) -> None:
    token_ids = token_ids_of(runner, max_tokens=2 * CANVAS + 3)
    answer = answer_of(runner, max_tokens=2 * CANVAS + 3)
    assert answer.finish.degeneration == degeneration(token_ids[: 2 * CANVAS + 3], window=32)
    assert answer.finish.degeneration is not None


def test_an_answer_that_is_shorter_than_the_window_says_nothing_of_it(diffusion_model: DiffusionModel) -> None:
    runner = diffusion_runner(diffusion_model)
    runner.eos_token_ids = frozenset()
    with running(runner, repetition_window=CANVAS) as engine:
        short, long = send(engine, request(max_tokens=CANVAS - 1), request(max_tokens=CANVAS))
        assert short.finish.degeneration is None
        assert long.finish.degeneration is not None


def test_a_stop_string_ends_the_answer_wherever_the_blocks_are_cut(runner: DiffusionRunner | ARRunner) -> None:
    whole = answer_of(runner, max_tokens=3 * CANVAS)
    border = len(runner.tokenizer.decode(token_ids_of(runner, max_tokens=3 * CANVAS)[:CANVAS]))
    for start, end in ((border - 3, border + 3), (2, 4), (border, border + 2)):
        stop = whole.text[start:end]
        answer = answer_of(runner, max_tokens=3 * CANVAS, stop=["nowhere", stop])
        assert answer.finish.reason == "stop"
        assert answer.text == whole.text[: whole.text.index(stop)]
        assert answer.finish.completion_tokens < whole.finish.completion_tokens


def test_what_a_stop_string_held_back_comes_at_the_end(runner: DiffusionRunner | ARRunner) -> None:
    whole = answer_of(runner, max_tokens=CANVAS)
    answer = answer_of(runner, max_tokens=CANVAS, stop=[whole.text[-3:] + "never"])
    assert answer.finish.reason == "length"
    assert answer.text == whole.text
