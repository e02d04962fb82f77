"""The measuring command, on the committed checkpoints and a few requests."""

from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest
from diffusion_worker.config import EngineKind, SamplerSettings
from diffusion_worker.wire import GenerateRequest

from examples.train.answering import AnswerError, ask, open_engine
from examples.train.evaluate import Evaluation

CHECKPOINTS = Path(__file__).parents[3] / "examples" / "checkpoints"


@pytest.fixture(scope="module")
def evaluation() -> Iterator[Evaluation]:
    """Three held-out requests and the committed scorer."""
    made = Evaluation(CHECKPOINTS / "storyteller-scorer", prompts=3)
    yield made
    made.scorer.close()


def test_the_scorer_finds_the_early_checkpoint_worse_than_the_grammar(evaluation: Evaluation) -> None:
    evaluation.of_texts("the grammar itself")
    with closing(open_engine(CHECKPOINTS / "storyteller-early", EngineKind.DIFFUSION)) as engine:
        early = evaluation.of_model("early", engine, seeds=1, sampler=SamplerSettings(max_denoising_steps=6))
    grammar = evaluation.rows[0]
    assert early.perplexity > 3 * grammar.perplexity
    assert 0 < early.steps <= 6
    assert early.passes_for_512 == early.steps * 8
    assert grammar.answered == 1.0


def test_a_refused_request_is_reported_with_its_reason() -> None:
    with closing(open_engine(CHECKPOINTS / "storyteller-ar", EngineKind.AR)) as engine:
        (answer,) = ask(engine, [GenerateRequest(request_id="long", prompt="fox " * 5000)])
    with pytest.raises(AnswerError, match="no answer"):
        _ = answer.finish
