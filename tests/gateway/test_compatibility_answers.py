"""Answers, as the clients that people use see them. docs/api.md has the table."""

import pytest

from tests.gateway.clients import CLIENTS, Client
from tests.gateway.fake_triton import says, says_seed
from tests.gateway.stack import Stack

CHAT = {"model": "story", "messages": [{"role": "user", "content": "hi"}]}
PROMPT = {"model": "story", "prompt": "Once"}


@pytest.fixture(params=CLIENTS)
def client(request: pytest.FixtureRequest) -> Client:
    return CLIENTS[request.param]


async def test_chat(stack: Stack, client: Client) -> None:
    await stack.route(await stack.arm("stable", says("Hello", " world", reason="length"), percent=100))
    answer = await client.call(stack.url, "chat", CHAT)
    assert (answer.texts, answer.finish_reasons) == (["Hello world"], ["length"])
    assert answer.body["object"] == "chat.completion"
    assert answer.body["id"].startswith("chatcmpl-")
    assert answer.body["model"] == "story"
    assert answer.body["choices"][0]["message"]["role"] == "assistant"


async def test_completion(stack: Stack, client: Client) -> None:
    await stack.route(await stack.arm("stable", says("upon", " a time"), percent=100))
    answer = await client.call(stack.url, "completion", PROMPT)
    assert (answer.texts, answer.finish_reasons) == (["upon a time"], ["stop"])
    assert answer.body["object"] == "text_completion"


async def test_roles_and_text_parts(stack: Stack, client: Client) -> None:
    arm = await stack.arm("stable", says("x"), percent=100)
    await stack.route(arm)
    parts = [{"type": "text", "text": "a"}, {"type": "text", "text": "b"}]
    turns = [
        {"role": "developer", "content": "be brief"},
        {"role": "user", "content": parts},
        {"role": "assistant", "content": "c"},
        {"role": "user", "content": "d"},
    ]
    assert (await client.call(stack.url, "chat", CHAT | {"messages": turns})).texts == ["x"]
    sent = [(turn.role, turn.content) for turn in arm.pods[0].requests[0].messages]
    assert sent == [("system", "be brief"), ("user", "ab"), ("assistant", "c"), ("user", "d")]


async def test_token_prompt(stack: Stack, client: Client) -> None:
    arm = await stack.arm("stable", says("x"), percent=100)
    await stack.route(arm)
    await client.call(stack.url, "completion", PROMPT | {"prompt": [5, 6, 7]})
    assert arm.pods[0].requests[0].prompt_token_ids == [5, 6, 7]


async def test_batch_of_prompts(stack: Stack, client: Client) -> None:
    arm = await stack.arm("stable", says_seed(), percent=100)
    await stack.route(arm)
    answer = await client.call(stack.url, "completion", PROMPT | {"prompt": ["a", "b"], "seed": 7})
    assert answer.texts == ["seed 7", "seed 7"]
    assert [choice["index"] for choice in answer.body["choices"]] == [0, 1]


async def test_choices(stack: Stack, client: Client) -> None:
    await stack.route(await stack.arm("stable", says_seed(), percent=100))
    answer = await client.call(stack.url, "chat", CHAT | {"n": 3, "seed": 7})
    assert len(set(answer.texts)) == 3
    assert answer.texts[0] == "seed 7"


async def test_usage(stack: Stack, client: Client) -> None:
    await stack.route(await stack.arm("stable", says("a", "b"), percent=100))
    usage = (await client.call(stack.url, "chat", CHAT)).usage
    assert (usage["prompt_tokens"], usage["completion_tokens"], usage["total_tokens"]) == (7, 6, 13)


async def test_seed(stack: Stack, client: Client) -> None:
    await stack.route(await stack.arm("stable", says_seed(), percent=100))
    first = await client.call(stack.url, "chat", CHAT)
    again = await client.call(stack.url, "chat", CHAT | {"seed": first.usage["seed"]})
    assert again.texts == first.texts
    assert first.body["system_fingerprint"] == again.body["system_fingerprint"]


async def test_sampling_parameters_and_limits(stack: Stack, client: Client) -> None:
    arm = await stack.arm("stable", says("x"), percent=100)
    await stack.route(arm)
    body = {"temperature": 0.5, "top_p": 0.9, "stop": ["END"], "max_completion_tokens": 77, "user": "me"}
    await client.call(stack.url, "chat", CHAT | body)
    sent = arm.pods[0].requests[0]
    assert (sent.temperature, sent.top_p, sent.stop, sent.max_tokens) == (0.5, 0.9, ["END"], 77)


async def test_penalties_and_bias(stack: Stack, client: Client) -> None:
    ar = await stack.arm("fallback", says("from AR"))
    await stack.route(await stack.arm("stable", says("from diffusion"), percent=100), ar)
    body = {"presence_penalty": 0.5, "frequency_penalty": 0.25, "logit_bias": {"7": -100}}
    assert (await client.call(stack.url, "chat", CHAT | body)).texts == ["from AR"]
    sent = ar.pods[0].requests[0]
    assert (sent.presence_penalty, sent.frequency_penalty, sent.logit_bias) == (0.5, 0.25, {7: -100.0})


async def test_log_probabilities(stack: Stack, client: Client) -> None:
    await stack.route(await stack.arm("stable", says_seed(logprobs=True), kind="ar", percent=100))
    answer = await client.call(stack.url, "chat", CHAT | {"seed": 7, "logprobs": True, "top_logprobs": 1})
    first, _ = answer.body["choices"][0]["logprobs"]["content"]
    assert (first["token"], first["logprob"], len(first["top_logprobs"])) == ("seed ", -0.5, 1)


async def test_models(stack: Stack, client: Client) -> None:
    await stack.route(await stack.arm("stable", says("x"), percent=100))
    listed = await client.call(stack.url, "models", {})
    assert [(model["id"], model["object"]) for model in listed.body["data"]] == [("story", "model")]
    assert listed.body["data"][0]["max_model_len"] is None
    assert (listed.body["data"][0]["max_choices"], listed.body["data"][0]["max_prompts"]) == (8, 32)
    shown = await client.call(stack.url, "model", {"model": "story"})
    assert shown.body == listed.body["data"][0]
