"""What the official client sees when all is well."""

import json

from tests.gateway.fake_triton import says
from tests.gateway.stack import Stack, eventually


async def test_a_chat_is_streamed_block_by_block(stack: Stack) -> None:
    arm = await stack.arm("stable", says("Once upon", " a time", ".", reason="length"), percent=100)
    await stack.route(arm)
    stream = await stack.openai.chat.completions.create(
        model="story",
        messages=[{"role": "system", "content": "Be brief."}, {"role": "user", "content": "Tell me a story."}],
        stream=True,
        stream_options={"include_usage": True},
        seed=7,
    )
    chunks = [chunk async for chunk in stream]
    deltas = [choice.delta for chunk in chunks for choice in chunk.choices]
    assert deltas[0].role == "assistant"
    assert [delta.content for delta in deltas if delta.content] == ["Once upon", " a time", "."]
    assert [choice.finish_reason for chunk in chunks for choice in chunk.choices][-1] == "length"
    assert chunks[-1].choices == []
    assert chunks[-1].usage.model_dump(exclude_none=True) == {
        "prompt_tokens": 7,
        "completion_tokens": 9,
        "total_tokens": 16,
        "seed": 7,
    }
    assert {chunk.system_fingerprint for chunk in chunks} == {"fp_stab0001_7"}
    assert len({chunk.id for chunk in chunks}) == 1
    assert chunks[0].id.startswith("chatcmpl-")


async def test_a_chat_in_one_piece(stack: Stack) -> None:
    arm = await stack.arm("stable", says("Once", " upon"), percent=100)
    await stack.route(arm)
    answer = await stack.openai.chat.completions.create(
        model="default/story", messages=[{"role": "user", "content": [{"type": "text", "text": "Hello"}]}]
    )
    assert answer.choices[0].message.content == "Once upon"
    assert answer.choices[0].message.role == "assistant"
    assert answer.choices[0].finish_reason == "stop"
    assert answer.usage.total_tokens == 13
    assert answer.model == "default/story"


async def test_a_completion_streamed_and_in_one_piece_say_the_same(stack: Stack) -> None:
    arm = await stack.arm("stable", says("Once", "", " upon"), percent=100)
    await stack.route(arm)
    whole = await stack.openai.completions.create(model="story", prompt="There", max_tokens=64)
    stream = await stack.openai.completions.create(model="story", prompt="There", max_tokens=64, stream=True)
    chunks = [chunk async for chunk in stream]
    assert "".join(chunk.choices[0].text for chunk in chunks) == whole.choices[0].text == "Once upon"
    assert whole.id.startswith("cmpl-")
    # A block without text makes no chunk: two blocks and the finish.
    assert len(chunks) == 3


async def test_the_stream_is_well_formed_and_ends_with_done(stack: Stack) -> None:
    arm = await stack.arm("stable", says('a "quote"\n', "ünïcode 🙂"), percent=100)
    await stack.route(arm)
    async with stack.http.stream(
        "POST", "/v1/completions", json={"model": "story", "prompt": "x", "stream": True}
    ) as response:
        body = (await response.aread()).decode()
    assert response.headers["content-type"].startswith("text/event-stream")
    *events, done, rest = body.split("\n\n")
    assert (done, rest) == ("data: [DONE]", "")
    texts = [json.loads(event.removeprefix("data: "))["choices"][0]["text"] for event in events]
    assert texts == ['a "quote"\n', "ünïcode 🙂", ""]


async def test_parameters_reach_the_worker(stack: Stack) -> None:
    arm = await stack.arm("stable", says("x"), percent=100)
    await stack.route(arm)
    await stack.openai.chat.completions.create(
        model="story",
        messages=[{"role": "developer", "content": "a"}, {"role": "user", "content": "b"}],
        max_completion_tokens=99,
        temperature=0.5,
        top_p=0.9,
        seed=3,
        stop=["END", "\n\n"],
        user="somebody",
    )
    await stack.openai.completions.create(model="story", prompt=[1, 2, 3])
    chat, completion = arm.pods[0].requests
    assert [(message.role, message.content) for message in chat.messages] == [("system", "a"), ("user", "b")]
    assert (chat.max_tokens, chat.temperature, chat.top_p, chat.seed, chat.stop) == (99, 0.5, 0.9, 3, ["END", "\n\n"])
    assert completion.prompt_token_ids == [1, 2, 3]
    assert (completion.max_tokens, completion.temperature, completion.top_p) == (None, 1.0, 1.0)
    assert completion.seed is not None


async def test_answers_say_which_arm_gave_them(stack: Stack) -> None:
    arm = await stack.arm("stable", says("x"), percent=100)
    await stack.route(arm)
    for stream in (False, True):
        response = await stack.http.post("/v1/completions", json={"model": "story", "prompt": "x", "stream": stream})
        assert response.headers["x-diffusion-arm"] == "stable"
        assert response.headers["x-diffusion-revision"] == "stab0001"


async def test_a_request_id_is_kept_or_made(stack: Stack) -> None:
    arm = await stack.arm("stable", says("x"), percent=100)
    await stack.route(arm)
    body = {"model": "story", "prompt": "x"}
    kept = await stack.http.post("/v1/completions", json=body, headers={"x-request-id": "abc-1"})
    assert kept.headers["x-request-id"] == "abc-1"
    made = await stack.http.post("/v1/completions", json=body, headers={"x-request-id": "no spaces please"})
    assert len(made.headers["x-request-id"]) == 32
    again = await stack.http.post("/v1/completions", json=body, headers={"x-request-id": "abc-1"})
    assert again.headers["x-request-id"] == "abc-1"
    seen = [request.request_id for request in arm.pods[0].requests]
    assert seen[0].startswith("abc-1.")
    assert len(set(seen)) == 3


async def test_models_are_listed_under_their_shortest_unique_name(stack: Stack) -> None:
    arm = await stack.arm("stable", says("x"), percent=100)
    await stack.route(arm)
    listed = [model.id async for model in stack.openai.models.list()]
    assert listed == ["story"]
    assert (await stack.openai.models.retrieve("story")).id == "story"
    assert (await stack.http.get("/v1/models/default/story")).json()["id"] == "default/story"
    assert (await stack.http.get("/v1/models/other")).json()["error"]["code"] == "model_not_found"


async def test_metrics_count_the_answer_on_its_arm(stack: Stack) -> None:
    arm = await stack.arm("stable", says("a", "b"), percent=100)
    await stack.route(arm)
    await stack.openai.completions.create(model="story", prompt="x")
    stream = await stack.openai.completions.create(model="story", prompt="x", stream=True)
    assert len([chunk async for chunk in stream]) == 3
    await eventually(lambda: stack.arm_metric("requests_total", arm, code="200") == 2)
    assert stack.arm_metric("output_tokens_total", arm) == 12
    assert stack.arm_metric("time_to_first_token_seconds_count", arm) == 2
    assert stack.arm_metric("request_duration_seconds_count", arm) == 2
    assert stack.metric("requests_in_flight") == 0
    text = (await stack.http.get(f"{stack.admin_url}/metrics")).text
    assert 'diffusion_gateway_routes_generation{model="story",model_namespace="default"} 1.0' in text
