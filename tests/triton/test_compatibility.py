"""The clients that people use, through the gateway, to a real Triton with our engine."""

from collections.abc import AsyncIterator

import pytest

from tests.gateway.clients import CLIENTS, Client, Json
from tests.gateway.stack import MODELS, Arm, Stack, eventually, model_resource, started
from tests.triton.worker import REVISION, Worker

PROMPT = {"model": "story", "prompt": "once upon a time", "seed": 3, "max_tokens": 48}
DRAWN = {"stream": True, "drafts": True}


@pytest.fixture
async def stack(worker: Worker) -> AsyncIterator[Stack]:
    """A gateway whose only arm is the worker."""
    arm = Arm("stable", "diffusion", REVISION, 100, int(worker.grpc.rsplit(":", 1)[1]), [])
    async with started() as stack:
        await stack.endpoints(arm, "127.0.0.1")
        # The tiny model is random: its canvases never converge.
        await stack.api.put(MODELS, model_resource(arm, routing={"onUnconverged": "Accept"}))
        await eventually(lambda: "default/story" in stack.gateway.table.models)
        await eventually(lambda: stack.ready_pods(arm) == 1)
        yield stack


@pytest.fixture
def client() -> Client:
    return CLIENTS["python"]


async def pieces(stack: Stack, body: Json) -> list[str]:
    """The texts of the blocks."""
    answer = await CLIENTS["curl"].call(stack.url, "completion", body | {"stream": True})
    return [chunk["choices"][0]["text"] for chunk in answer.chunks if chunk["choices"][0]["text"]]


async def test_an_answer_whole_and_streamed_is_the_same_for_the_same_seed(stack: Stack, client: Client) -> None:
    whole = await client.call(stack.url, "completion", PROMPT)
    streamed = await client.call(stack.url, "completion", PROMPT | {"stream": True})
    assert whole.texts == streamed.texts != [""]
    assert whole.finish_reasons == streamed.finish_reasons == ["length"]
    assert whole.usage["completion_tokens"] == 48
    assert whole.texts != (await client.call(stack.url, "completion", PROMPT | {"seed": 4})).texts


@pytest.mark.parametrize("name", CLIENTS)
async def test_a_stop_string_ends_an_answer_also_across_the_border_of_two_blocks(stack: Stack, name: str) -> None:
    first, second, *_ = await pieces(stack, PROMPT)
    stop = first[-2:] + second[:2]
    text = "".join(await pieces(stack, PROMPT))
    for stream in (False, True):
        answer = await CLIENTS[name].call(stack.url, "completion", PROMPT | {"stop": [stop], "stream": stream})
        assert answer.texts == [text[: text.index(stop)]]
        assert answer.finish_reasons == ["stop"]


async def test_a_batch_answers_each_prompt_as_it_would_alone(stack: Stack, client: Client) -> None:
    prompts = ["once upon a time", "there was a fox"]
    alone = [(await client.call(stack.url, "completion", PROMPT | {"prompt": prompt})).texts[0] for prompt in prompts]
    assert (await client.call(stack.url, "completion", PROMPT | {"prompt": prompts})).texts == alone


async def test_drafts_show_the_canvas_and_change_no_token(stack: Stack, client: Client) -> None:
    plain = await client.call(stack.url, "completion", PROMPT)
    drawn = await client.call(stack.url, "completion", PROMPT | DRAWN)
    assert drawn.texts == plain.texts
    drafts = [chunk["draft"] for chunk in drawn.chunks if chunk.get("draft")]
    assert drafts
    assert {draft["choice"] for draft in drafts} == {0}
    assert all(draft["text"] for draft in drafts)


async def test_what_the_engine_refuses_is_a_bad_request_with_its_parameter(stack: Stack, client: Client) -> None:
    outcome = await client.call(stack.url, "completion", PROMPT | {"prompt": [2**31 - 1]})
    assert outcome.error is not None
    assert (outcome.error.status, outcome.error.param) == (400, "prompt")
