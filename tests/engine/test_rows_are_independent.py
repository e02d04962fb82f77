"""The tokens of a request depend on its seed and nothing else: not on neighbours, their order or who came first."""

import random
from collections.abc import Sequence

import pytest
import torch
from diffusion_worker.engine.ar import ARRunner
from diffusion_worker.engine.diffusion import DiffusionRunner
from diffusion_worker.engine.row import Row
from diffusion_worker.models.ar import ARModel
from diffusion_worker.models.diffusion import DiffusionModel

from tests.engine.answers import Answer, request, running, send
from tests.engine.checkpoints import CANVAS, VOCAB, WINDOW
from tests.engine.runners import WatchedRunner, ar_runner, diffusion_runner

REQUESTS = [
    request("the fox", seed=1, max_tokens=40),
    request("the fox", seed=2, max_tokens=40),
    request("x", seed=3, max_tokens=7, temperature=0.0),
    request("the hen " * WINDOW, seed=4, max_tokens=30, top_p=0.5),
    request("a river, a fox", seed=5, max_tokens=50, temperature=0.5),
    request("down to the river", seed=6, max_tokens=33, temperature=1.5, top_p=0.9),
]
COMPANION = request("a stranger", seed=99, max_tokens=64)  # keeps the engine stepping while the others arrive
COMPOSITIONS = 4


def texts_alone(runner: DiffusionRunner | ARRunner) -> list[str]:
    """The text of each request when it has the engine to itself."""
    texts = []
    with running(runner) as engine:
        for each in REQUESTS:
            (answer,) = send(engine, each)
            assert answer.finish
            texts.append(answer.text)
    return texts


def texts_together(runner: DiffusionRunner | ARRunner, *, order: Sequence[int], arrivals: Sequence[int]) -> list[str]:
    """The text of each request when request `order[i]` arrives before step `arrivals[i]`."""
    answers = [Answer() for _ in REQUESTS]
    due = sorted(zip(arrivals, order, strict=True), reverse=True)
    steps = 0

    def submit_those_due(_: Sequence[Row]) -> None:
        nonlocal steps
        while due and due[-1][0] <= steps:
            index = due.pop()[1]
            engine.submit(REQUESTS[index], answers[index].take)
        steps += 1

    with running(WatchedRunner(runner, before_step=submit_those_due)) as engine:
        send(engine, COMPANION)
        for answer in answers:
            assert answer.finish
    return [answer.text for answer in answers]


def assert_independent(runner: DiffusionRunner | ARRunner) -> None:
    """Compare the answers alone with those in several random compositions."""
    alone = texts_alone(runner)
    assert len(set(alone)) == len(alone)
    chance = random.Random(0)
    for _ in range(COMPOSITIONS):
        order = chance.sample(range(len(REQUESTS)), len(REQUESTS))
        arrivals = [chance.randrange(12) for _ in REQUESTS]
        assert texts_together(runner, order=order, arrivals=arrivals) == alone, (order, arrivals)


@pytest.mark.parametrize("max_batch_size", [3, 7])
def test_diffusion_rows(diffusion_model: DiffusionModel, max_batch_size: int) -> None:
    runner = diffusion_runner(
        diffusion_model, max_batch_size=max_batch_size, stability_threshold=1, confidence_threshold=1.2
    )
    assert_independent(runner)


@pytest.mark.parametrize("architecture", ["llama", "gemma3"])
def test_autoregressive_rows(architecture: str, llama_model: ARModel, gemma3_model: ARModel) -> None:
    model = {"llama": llama_model, "gemma3": gemma3_model}[architecture]
    assert_independent(ar_runner(model, max_batch_size=5))


def test_the_seed_changes_the_answer_and_the_same_seed_repeats_it(diffusion_model: DiffusionModel) -> None:
    with running(diffusion_runner(diffusion_model)) as engine:
        first, again, other = send(engine, request(seed=1), request(seed=1), request(seed=2))
        assert first.finish.seed == again.finish.seed == 1
        assert other.finish.seed == 2
    assert first.text == again.text != other.text


def test_without_a_seed_one_is_drawn_and_reported(diffusion_model: DiffusionModel) -> None:
    with running(diffusion_runner(diffusion_model)) as engine:
        first, second = send(engine, request(seed=None), request(seed=None))
        assert first.finish.seed != second.finish.seed
        (repeated,) = send(engine, request(seed=first.finish.seed))
        assert repeated.finish
    assert repeated.text == first.text != second.text


def test_temperature_zero_repeats_itself_without_a_seed(diffusion_model: DiffusionModel) -> None:
    with running(diffusion_runner(diffusion_model)) as engine:
        first, second = send(engine, *[request(seed=None, temperature=0.0)] * 2)
        assert first.finish.seed == second.finish.seed
    assert first.text == second.text


def test_a_rows_logits_are_the_same_numbers_in_any_company(diffusion_model: DiffusionModel) -> None:
    """Not nearly: the kernels add up in an order that does not depend on the batch (see models/layers.py)."""
    generator = torch.Generator().manual_seed(0)
    prompts = [
        torch.randint(VOCAB, (length,), generator=generator).tolist() for length in (1, 2, 7, WINDOW, 3 * WINDOW + 1)
    ]
    canvases = torch.randint(VOCAB, (len(prompts), CANVAS), generator=generator)
    soft = torch.randn(len(prompts), CANVAS, diffusion_model.hidden_size, generator=generator)

    def logits_and_soft(rows: Sequence[int]) -> tuple[torch.Tensor, torch.Tensor]:
        cache = diffusion_model.new_cache(max_rows=len(rows))
        slots = [cache.take_slot() for _ in rows]
        diffusion_model.encode(cache, slots, [0] * len(rows), [prompts[row] for row in rows])
        logits = diffusion_model.denoise(
            cache, slots, [len(prompts[row]) for row in rows], canvases[list(rows)], soft[list(rows)]
        )
        embeddings = torch.empty(len(rows), CANVAS, diffusion_model.hidden_size)
        for row, embedding in zip(logits.softmax(dim=-1), embeddings, strict=True):
            diffusion_model.soft_embedding(row, out=embedding)
        return logits, embeddings

    alone = [logits_and_soft([row]) for row in range(len(prompts))]
    chance = random.Random(1)
    for _ in range(20):
        rows = chance.sample(range(len(prompts)), chance.randint(2, len(prompts)))
        for i, (logits, embedding) in zip(rows, zip(*logits_and_soft(rows), strict=True), strict=True):
            assert torch.equal(logits, alone[i][0][0]), rows
            assert torch.equal(embedding, alone[i][1][0]), rows
