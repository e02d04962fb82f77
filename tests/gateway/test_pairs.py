"""A share of the diffusion answers is answered by AR as well, and both are scored: off the request path, whatever happens there."""

import asyncio
from collections.abc import AsyncIterator
from typing import Any

import pytest
from diffusion_worker.wire import Degeneration, ErrorEvent, GenerateRequest, ScoreRequest

from tests.gateway.fake_triton import Event, answers_and_scores, block, finish, hangs, reports, says
from tests.gateway.stack import Arm, Stack, eventually

DIFFUSION, AR = "the cat sat on mats", "the dog ran far off"
BODY = {"model": "story", "prompt": "once upon", "max_tokens": 64, "temperature": 0.7, "stop": ["END"]}
PAIR = {"model_namespace": "default", "model": "story"}


def nats(text: str) -> float:
    """Of each token: AR finds the diffusion answer less likely."""
    return 1.5 if text == DIFFUSION else 1.0


async def arms(stack: Stack, *ar: Any, **spec: Any) -> tuple[Arm, Arm]:
    """All weight on diffusion; AR is the fallback at 0 %."""
    diffusion = await stack.arm("stable", says("the cat ", "sat on mats"), percent=100)
    fallback = await stack.arm("fallback", *(ar or (answers_and_scores("the dog ", "ran far off", nats=nats),)))
    await stack.route(diffusion, fallback, **spec)
    return diffusion, fallback


def pairs(stack: Stack, diffusion: Arm, ar: Arm, name: str = "pairs_total", **labels: str) -> float:
    return stack.metric(name, **PAIR, revision=diffusion.revision, ar_revision=ar.revision, **labels)


async def ask(stack: Stack, **body: Any) -> None:
    response = await stack.http.post("/v1/completions", json=BODY | body)
    assert response.status_code == 200, response.text


async def test_at_full_diffusion_weight_pairs_arrive(stack: Stack) -> None:
    stack.sample = 0.0
    diffusion, ar = await arms(stack)
    await ask(stack)
    await eventually(lambda: pairs(stack, diffusion, ar) == 1)
    sums = [f"pair_nll_{name}_total" for name in ("above", "below", "squared")]
    assert [pairs(stack, diffusion, ar, name) for name in sums] == [0.5, 0, 0.25]
    for name, values in {"nll": (30, 20), "tokens": (20, 20), "text_bytes": (19, 19), "output_tokens": (6, 6)}.items():
        found = [pairs(stack, diffusion, ar, f"pair_{name}_total", side=side) for side in ("diffusion", "ar")]
        assert found == list(values), name


async def test_ar_gets_the_same_request_at_the_same_length_and_low_priority(stack: Stack) -> None:
    stack.sample = 0.0
    diffusion, ar = await arms(stack)
    await ask(stack)
    await eventually(lambda: pairs(stack, diffusion, ar) == 1)
    answer, *scores = ar.pods[0].requests
    original = diffusion.pods[0].requests[0]
    assert isinstance(answer, GenerateRequest)
    assert answer.background
    assert answer.max_tokens == 6
    same = ("prompt", "temperature", "top_p", "stop", "seed")
    assert [getattr(answer, name) for name in same] == [getattr(original, name) for name in same]
    assert [(score.prompt, score.completion) for score in scores] == [("once upon", DIFFUSION), ("once upon", AR)]
    assert ar.pods[0].priorities == [2, 2, 2]
    assert len({request.request_id for request in (original, answer, *scores)}) == 4


async def test_the_longer_text_is_cut_to_the_length_of_the_shorter(stack: Stack) -> None:
    stack.sample = 0.0
    diffusion, ar = await arms(stack, answers_and_scores("the dog ran far off to the hills", nats=nats))
    await ask(stack)
    await eventually(lambda: pairs(stack, diffusion, ar) == 1)
    assert [score.completion for score in ar.pods[0].requests[1:]] == [DIFFUSION, "the dog ran far off"]


async def test_streamed_chats_are_compared_too(stack: Stack) -> None:
    stack.sample = 0.0
    diffusion, ar = await arms(stack)
    messages = [{"role": "user", "content": "tell me"}]
    stream = await stack.openai.chat.completions.create(model="story", messages=messages, stream=True)
    assert "".join([chunk.choices[0].delta.content or "" async for chunk in stream]) == DIFFUSION
    await eventually(lambda: pairs(stack, diffusion, ar) == 1)
    assert [request.messages[0].content for request in ar.pods[0].requests] == ["tell me"] * 3


async def test_an_answer_that_ar_replaced_is_compared_too(stack: Stack) -> None:
    """Without those that are refused, the others would look better than the revision is."""

    async def repeats(request: Any, _: Any) -> AsyncIterator[Event]:
        yield block(0, DIFFUSION)
        end = finish(1, seed=request.seed)
        yield end.model_copy(update={"degeneration": Degeneration(repetition=1, repeats=True, distinct_2=0.1)})

    stack.sample = 0.0
    diffusion = await stack.arm("stable", repeats, percent=100)
    ar = await stack.arm("fallback", answers_and_scores(AR, nats=nats))
    await stack.route(diffusion, ar)
    response = await stack.http.post("/v1/completions", json=BODY)
    assert response.headers["x-diffusion-arm"] == "fallback"
    await eventually(lambda: pairs(stack, diffusion, ar) == 1)
    assert pairs(stack, diffusion, ar, "pair_repeating_total", side="diffusion") == 1


@pytest.mark.parametrize(
    ("draw", "spec", "is_compared"),
    [
        (0.0499, {}, True),
        (0.0501, {}, False),
        (0.0, {"scoring": {"samplePercent": 0}}, False),
        (0.0249, {"scoring": {"samplePercent": 2.5}}, True),
        (0.9999, {"scoring": {"samplePercent": 100}}, True),
    ],
)
async def test_the_share_is_the_models(stack: Stack, draw: float, spec: dict[str, Any], is_compared: bool) -> None:
    stack.sample = draw
    diffusion, ar = await arms(stack, **spec)
    await ask(stack)
    await eventually(lambda: pairs(stack, diffusion, ar) == is_compared)
    assert len(ar.pods[0].requests) == 3 * is_compared


@pytest.mark.parametrize(
    ("headers", "body"),
    [
        ({"x-diffusion-arm": "stable"}, {}),
        ({}, {"sampler": {"max_denoising_steps": 4}}),
        ({}, {"prompt": ["one", "two"]}),
    ],
    ids=["forced arm", "sampler of its own", "several prompts"],
)
async def test_what_is_no_sample_of_the_revision_is_not_compared(
    stack: Stack, headers: dict[str, str], body: dict[str, Any]
) -> None:
    stack.sample = 0.0
    diffusion, ar = await arms(stack)
    response = await stack.http.post("/v1/completions", json=BODY | body, headers=headers)
    assert (response.status_code, response.headers["x-diffusion-arm"]) == (200, "stable")
    await ask(stack)
    await eventually(lambda: pairs(stack, diffusion, ar) == 1)
    assert len(ar.pods[0].requests) == 3


async def test_answers_of_ar_are_not_compared_with_ar(stack: Stack) -> None:
    stack.sample = 0.0
    _, ar = await arms(stack)
    await ask(stack, max_tokens=8)
    assert [request.background for request in ar.pods[0].requests] == [False]


async def test_without_a_pod_of_ar_the_sample_is_missing_and_not_zero(stack: Stack) -> None:
    stack.sample = 0.0
    diffusion, ar = await arms(stack)
    await stack.endpoints(ar)
    await eventually(lambda: stack.ready_pods(ar) == 0)
    await ask(stack)
    dropped = lambda: pairs(stack, diffusion, ar, "pairs_dropped_total", reason="no_ready_pod")  # noqa: E731
    await eventually(lambda: dropped() == 1)
    assert pairs(stack, diffusion, ar) == 0


async def test_when_the_scorer_fails_the_sample_is_missing(stack: Stack) -> None:
    async def answers_only(request: Any, context: Any) -> AsyncIterator[Any]:
        event = ErrorEvent(code="engine_error", message="the scorer is broken")
        script = reports(event) if isinstance(request, ScoreRequest) else says(AR)
        async for item in script(request, context):
            yield item

    stack.sample = 0.0
    diffusion, ar = await arms(stack, answers_only)
    await ask(stack)
    await eventually(lambda: pairs(stack, diffusion, ar, "pairs_dropped_total", reason="engine_error") == 1)
    assert pairs(stack, diffusion, ar) == 0


async def test_what_waits_is_bounded_and_delays_no_request(stack: Stack) -> None:
    stack.sample = 0.0
    diffusion, ar = await arms(stack, hangs())
    for _ in range(20):
        await ask(stack)
    assert len(ar.pods[0].requests) <= 4
    assert stack.metric("pairs_waiting") == 16
    assert pairs(stack, diffusion, ar, "pairs_dropped_total", reason="pairs_queue_full") == 4
    assert stack.arm_metric("requests_total", diffusion, code="200") == 20


async def test_a_gateway_that_drains_waits_for_no_comparison(stack: Stack) -> None:
    stack.sample = 0.0
    diffusion, ar = await arms(stack, hangs())
    await ask(stack)
    await eventually(lambda: len(ar.pods[0].requests) == 1)
    stack.stop.set()
    await asyncio.wait_for(stack.running, timeout=10)
    assert ar.pods[0].cancelled.is_set()
    assert pairs(stack, diffusion, ar, "pairs_dropped_total", reason="gateway_stops") == 1


async def test_comparisons_count_as_nobodys_requests_but_tell_how_fast_ar_is(stack: Stack) -> None:
    """At 100 % AR answers hardly anything else: without them there would be nothing to compare latencies with."""
    stack.sample = 0.0
    diffusion, ar = await arms(stack)
    await ask(stack)
    await eventually(lambda: pairs(stack, diffusion, ar) == 1)
    assert stack.arm_metric("arm_requests_total", ar) == 0
    assert stack.arm_metric("checked_answers_total", ar) == 0
    assert stack.arm_metric("answers_total", ar, length="1-32") == 1
    assert stack.arm_metric("answer_seconds_total", ar, length="1-32") > 0


async def test_a_client_that_leaves_in_the_middle_makes_no_sample(stack: Stack) -> None:
    async def half(*_: Any) -> AsyncIterator[Event]:
        async for item in hangs("the cat ")(None, None):  # type: ignore[arg-type]
            yield item  # type: ignore[misc]

    stack.sample = 0.0
    diffusion = await stack.arm("stable", half, percent=100)
    ar = await stack.arm("fallback", answers_and_scores(AR, nats=nats))
    await stack.route(diffusion, ar)
    async with stack.http.stream("POST", "/v1/completions", json=BODY | {"stream": True}) as response:
        await anext(response.aiter_lines())
    await asyncio.wait_for(diffusion.pods[0].cancelled.wait(), timeout=10)
    assert stack.metric("pairs_waiting") == 0
    assert ar.pods[0].requests == []
