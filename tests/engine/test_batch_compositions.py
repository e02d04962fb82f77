"""A request's tokens are the same in a thousand random batches: other neighbours, another order, other arrivals.

In float32 on a CPU this is exact: no row is padded to another's length, and no product adds in an order that depends on
how many rows share it. So a single differing token is a fault.
"""

import random
from pathlib import Path

import pytest
from diffusion_worker.engine.diffusion import DiffusionRunner
from diffusion_worker.models.checkpoint import open_checkpoint
from diffusion_worker.models.diffusion import load_diffusion_model
from diffusion_worker.wire import GenerateRequest

from tests.engine.answers import request
from tests.engine.conftest import config_of
from tests.engine.driving import tokens_of
from tests.engine.runners import diffusion_runner

CHECKPOINT = Path(__file__).parents[2] / "examples" / "checkpoints" / "storyteller"
COMPOSITIONS = 1000
MAX_BATCH_SIZE = 4
CANVAS_LENGTH = 16  # shorter than the model's own, and few steps, so that a thousand batches take two minutes
FEW_STEPS = {"max_denoising_steps": 5, "temperature_min": 0.4, "temperature_max": 1.0}
STORY = "Once upon a time there was a fox who lived by the river. " * 12  # longer than the sliding window

REQUESTS = [
    request("Once upon a time", seed=1, max_tokens=16),
    request("Once upon a time", seed=2, max_tokens=32),
    request("The hen", seed=3, max_tokens=16, temperature=0.0),
    request(STORY, seed=4, max_tokens=16),
    request("A boy", seed=5, max_tokens=16, top_p=0.9, sampler={"adaptive": True, "schedule": "cosine"}),
    request("A girl", seed=6, max_tokens=16, sampler={"name": "discrete_ddim"}),
    request("The king", seed=7, max_tokens=16, sampler={"name": "discrete_ddim", "deterministic": True}),
    request(STORY[:200], seed=8, max_tokens=16, sampler={"name": "block_refinement"}),
]


@pytest.fixture(scope="module")
def runner() -> DiffusionRunner:
    """The shipped model in float32."""
    model = load_diffusion_model(open_checkpoint(config_of(CHECKPOINT, "diffusion", device="cpu", dtype="float32")))
    return diffusion_runner(model, max_batch_size=MAX_BATCH_SIZE, canvas_length=CANVAS_LENGTH, **FEW_STEPS)


def test_a_thousand_compositions(runner: DiffusionRunner) -> None:
    named = [each.model_copy(update={"request_id": str(i)}) for i, each in enumerate(REQUESTS)]
    alone = {each.request_id: tokens_of(runner, [each])[0] for each in named}
    assert len({tuple(tokens) for tokens in alone.values()}) == len(named)
    chance = random.Random(0)
    differing: list[tuple[int, GenerateRequest]] = []
    answered = 0
    for composition in range(COMPOSITIONS):
        batch = chance.sample(named, chance.randint(2, 6))
        arrivals = sorted(chance.randrange(6) for _ in batch)
        for each, tokens in zip(batch, tokens_of(runner, batch, arrivals), strict=True):
            answered += 1
            if tokens != alone[each.request_id]:
                differing.append((composition, each))
    assert not differing, f"{len(differing)} of {answered} answers"
    assert answered > 3 * COMPOSITIONS
