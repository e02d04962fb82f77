"""Scores on their way to a worker."""

from collections.abc import AsyncIterator
from typing import Any

from diffusion_worker.wire import ScoreEvent, ScoreRequest

from tests.gateway.fake_triton import Event, says
from tests.gateway.stack import Stack

SCORE = ScoreEvent(nll=3.5, tokens=2, text_bytes=9, prompt_tokens=4)
ASKED = ScoreRequest(request_id="s", prompt="the fox", completion=" went down")


async def scores(*_: Any) -> AsyncIterator[Event]:
    yield SCORE


async def test_a_score_comes_back_and_waits_behind_answers(stack: Stack) -> None:
    ar = await stack.arm("fallback", scores)
    await stack.route(ar)
    stream = stack.gateway.pool.open(f"127.0.0.2:{ar.port}", ASKED)
    assert await stream.next(timeout_seconds=60) == SCORE
    await stream.task
    assert (ar.pods[0].requests, ar.pods[0].priorities) == ([ASKED], [2])


async def test_a_request_for_an_answer_has_the_default_priority(stack: Stack) -> None:
    arm = await stack.arm("stable", says("x"), percent=100)
    await stack.route(arm)
    await stack.openai.completions.create(model="story", prompt="x")
    assert arm.pods[0].priorities == [0]


async def test_a_worker_that_answers_with_a_score_has_failed(stack: Stack) -> None:
    arm = await stack.arm("stable", scores, percent=100)
    await stack.route(arm)
    response = await stack.http.post("/v1/completions", json={"model": "story", "prompt": "x"})
    assert response.status_code == 503
