"""Answers, background answers and scores in one autoregressive engine: each ends once and as it would alone."""

import random
from typing import Any

from diffusion_worker.models.ar import ARModel
from diffusion_worker.wire import ErrorEvent, FinishEvent, ScoreEvent

from tests.engine.answers import PATIENCE_SECONDS, Answer, request, running, send
from tests.engine.runners import ar_runner
from tests.engine.test_scores import Score, score_request, submit

ROUNDS = 300
IN_FLIGHT = 12


def test_answers_background_answers_and_scores_together(llama_model: ARModel) -> None:
    chance = random.Random(0)
    texts = [score_request(completion=" the hen" * length) for length in (1, 7, 20, 60)]
    prompts = [request(seed=seed, max_tokens=5 + 10 * seed) for seed in range(4)]
    with running(ar_runner(llama_model)) as engine:
        nll = [score.event.nll for score in submit(engine, *texts)]
        alone = [answer.text for answer in send(engine, *prompts) if answer.finish]
    answers: list[tuple[int, bool, Answer]] = []
    scores: list[tuple[int, Score, Any]] = []
    runner = ar_runner(llama_model, max_batch_size=3)
    with running(runner, score_share=0.3) as engine:
        for number in range(ROUNDS):
            which, background = chance.randrange(4), chance.random() < 0.3
            answer = Answer()
            engine.submit(prompts[which].model_copy(update={"background": background}), answer.take)
            answers.append((which, background, answer))
            score = Score()
            handle = engine.submit_score(texts[which], score.take)
            scores.append((which, score, handle))
            if chance.random() < 0.2:
                handle.cancel()
            if number >= IN_FLIGHT:
                assert answers[number - IN_FLIGHT][2].ended.wait(PATIENCE_SECONDS)
            if number % 50 == 49:
                assert all(answer.ended.wait(PATIENCE_SECONDS) for _, _, answer in answers)
                (undisturbed,) = send(engine, prompts[3].model_copy(update={"background": True}))
                assert undisturbed.finish
        for which, background, answer in answers:
            if background and isinstance(answer.end, ErrorEvent):
                assert answer.end.code in ("preempted", "overloaded")
            else:
                assert isinstance(answer.end, FinishEvent), answer.end
                assert answer.text == alone[which]
        ends = [(which, score.event) for which, score, _ in scores]
        assert engine.rows_in_flight == 0
    assert {event.code for _, event in ends if isinstance(event, ErrorEvent)} <= {"cancelled", "overloaded"}
    scored = [(which, event.nll) for which, event in ends if isinstance(event, ScoreEvent)]
    assert len(scored) > ROUNDS / 4
    assert all(abs(value - nll[which]) < 1e-3 * nll[which] for which, value in scored)
    assert runner._slots.cache.rows == runner.scorer.rows_held == 0
