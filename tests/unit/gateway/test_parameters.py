"""Every parameter is honoured or refused by name."""

import json
from typing import Any

import pytest
from diffusion_gateway.openai.errors import ApiError
from diffusion_gateway.openai.requests import ChatOrCompletion, parse_chat, parse_completion
from diffusion_worker.config import SamplerSettings
from diffusion_worker.wire import REQUEST, encode_request


def completion(**body: Any) -> ChatOrCompletion:
    return parse_completion(json.dumps({"model": "m", "prompt": "x"} | body).encode())


def chat(**body: Any) -> ChatOrCompletion:
    base = {"model": "m", "messages": [{"role": "user", "content": "x"}]}
    return parse_chat(json.dumps(base | body).encode())


REFUSED: list[tuple[dict[str, Any], str]] = [
    ({"temperature": -0.1}, "temperature"),
    ({"temperature": 2.1}, "temperature"),
    ({"temperature": "hot"}, "temperature"),
    ({"temperature": True}, "temperature"),
    ({"top_p": 0}, "top_p"),
    ({"top_p": 1.01}, "top_p"),
    ({"max_tokens": 0}, "max_tokens"),
    ({"max_tokens": -1}, "max_tokens"),
    ({"max_tokens": 1.5}, "max_tokens"),
    ({"max_tokens": "12"}, "max_tokens"),
    ({"max_tokens": 2**31}, "max_tokens"),
    ({"seed": -1}, "seed"),
    ({"seed": 2**63}, "seed"),
    ({"seed": 1.5}, "seed"),
    ({"stop": ""}, "stop"),
    ({"stop": ["a", ""]}, "stop"),
    ({"stop": ["a", "b", "c", "d", "e"]}, "stop"),
    ({"stop": 5}, "stop"),
    ({"stream": "yes"}, "stream"),
    ({"stream_options": {"include_usage": True}}, "stream_options"),
    ({"stream": True, "stream_options": {"include_usage": "yes"}}, "stream_options.include_usage"),
    ({"stream": True, "stream_options": "usage"}, "stream_options"),
    ({"model": ""}, "model"),
    ({"model": 5}, "model"),
    ({"n": 9}, "n"),
    ({"n": 0}, "n"),
    ({"n": True}, "n"),
    ({"logprobs": -1}, "logprobs"),
    ({"top_logprobs": 3}, "top_logprobs"),
    ({"logit_bias": {"50256": -101}}, "logit_bias"),
    ({"logit_bias": {"50256": True}}, "logit_bias"),
    ({"logit_bias": {"50256": "1"}}, "logit_bias"),
    ({"logit_bias": {"fox": 1}}, "logit_bias"),
    ({"logit_bias": {"-1": 1}}, "logit_bias"),
    ({"logit_bias": {"²": 1}}, "logit_bias"),
    ({"logit_bias": {str(2**31): 1}}, "logit_bias"),
    ({"logit_bias": {str(token): 1 for token in range(1025)}}, "logit_bias"),
    ({"logit_bias": [1]}, "logit_bias"),
    ({"presence_penalty": 2.5}, "presence_penalty"),
    ({"frequency_penalty": -2.1}, "frequency_penalty"),
    ({"frequency_penalty": "1"}, "frequency_penalty"),
    ({"sampler": "entropy_bound"}, "sampler"),
    ({"sampler": {"steps": 5}}, "sampler.steps"),
    ({"sampler": {"name": "ddpm"}}, "sampler.name"),
    ({"sampler": {"max_denoising_steps": 0}}, "sampler.max_denoising_steps"),
    ({"sampler": {"max_denoising_steps": "12"}}, "sampler.max_denoising_steps"),
    ({"sampler": {"max_denoising_steps": 1025}}, "sampler.max_denoising_steps"),
    ({"sampler": {"top_p": 0}}, "sampler.top_p"),
    ({"sampler": {"guidance_scale": -1}}, "sampler.guidance_scale"),
    ({"sampler": {"deterministic": "yes"}}, "sampler.deterministic"),
    ({"sampler": {"canvas_length": 64}}, "sampler.canvas_length"),
    ({"drafts": True}, "drafts"),
    ({"stream": True, "drafts": "yes"}, "drafts"),
    ({"frobnicate": 1}, "frobnicate"),
    ({"min_p": 0.1}, "min_p"),
]

REFUSED_IN_COMPLETIONS: list[tuple[dict[str, Any], str]] = [
    ({"best_of": 2}, "best_of"),
    ({"logprobs": True}, "logprobs"),
    ({"logprobs": 21}, "logprobs"),
    ({"top_logprobs": 0}, "top_logprobs"),
    ({"echo": True}, "echo"),
    ({"suffix": "end"}, "suffix"),
    ({"prompt": []}, "prompt"),
    ({"prompt": ["a", ["b"]]}, "prompt[1]"),
    ({"prompt": [[1], []]}, "prompt[1]"),
    ({"prompt": ["a"] * 33}, "prompt"),
    ({"prompt": ["a"] * 5, "n": 7}, "prompt"),
    ({"prompt": [1, "a"]}, "prompt"),
    ({"prompt": [-1]}, "prompt"),
    ({"prompt": [2**31]}, "prompt"),
    ({"prompt": [True]}, "prompt"),
    ({"prompt": [1.5]}, "prompt"),
    ({"prompt": None}, "prompt"),
    ({"prompt": {"text": "x"}}, "prompt"),
    ({"messages": []}, "messages"),
    ({"max_completion_tokens": 5}, "max_completion_tokens"),
]

REFUSED_IN_CHATS: list[tuple[dict[str, Any], str]] = [
    ({"logprobs": 5}, "logprobs"),
    ({"logprobs": True, "top_logprobs": 21}, "top_logprobs"),
    ({"logprobs": False, "top_logprobs": 2}, "top_logprobs"),
    ({"tools": [{"type": "function"}]}, "tools"),
    ({"tool_choice": "required"}, "tool_choice"),
    ({"functions": [{}]}, "functions"),
    ({"function_call": "auto"}, "function_call"),
    ({"response_format": {"type": "json_object"}}, "response_format"),
    ({"response_format": {"type": "json_schema", "json_schema": {}}}, "response_format"),
    ({"modalities": ["text", "audio"]}, "modalities"),
    ({"audio": {"voice": "x"}}, "audio"),
    ({"prompt": "x"}, "prompt"),
    ({"max_completion_tokens": 0}, "max_completion_tokens"),
    ({"max_tokens": 5, "max_completion_tokens": 6}, "max_tokens"),
    ({"messages": []}, "messages"),
    ({"messages": "x"}, "messages"),
    ({"messages": ["x"]}, "messages[0]"),
    ({"messages": [{"content": "x"}]}, "messages[0].role"),
    ({"messages": [{"role": "tool", "content": "x"}]}, "messages[0].role"),
    ({"messages": [{"role": ["user"], "content": "x"}]}, "messages[0].role"),
    ({"messages": [{"role": "user"}]}, "messages[0].content"),
    ({"messages": [{"role": "user", "content": 5}]}, "messages[0].content"),
    ({"messages": [{"role": "user", "content": []}]}, "messages[0].content"),
    ({"messages": [{"role": "user", "content": ["x"]}]}, "messages[0].content[0]"),
    ({"messages": [{"role": "user", "content": [{"type": "text"}]}]}, "messages[0].content[0]"),
    (
        {"messages": [{"role": "user", "content": [{"type": "image_url", "image_url": {}}]}]},
        "messages[0].content[0].type",
    ),
    ({"messages": [{"role": "assistant", "content": "x", "tool_calls": [{}]}]}, "messages[0].tool_calls"),
    ({"messages": [{"role": "user", "content": "x", "color": "red"}]}, "messages[0].color"),
]


def names(cases: list[tuple[dict[str, Any], str]]) -> list[str]:
    return [json.dumps(body) for body, _ in cases]


@pytest.mark.parametrize(
    ("body", "param"), REFUSED + REFUSED_IN_COMPLETIONS, ids=names(REFUSED + REFUSED_IN_COMPLETIONS)
)
def test_a_completion_names_the_parameter_that_it_refuses(body: dict[str, Any], param: str) -> None:
    with pytest.raises(ApiError) as raised:
        completion(**body)
    assert (raised.value.status, raised.value.param) == (400, param)
    assert param.split(".")[-1].split("[")[0] in raised.value.message


@pytest.mark.parametrize(("body", "param"), REFUSED + REFUSED_IN_CHATS, ids=names(REFUSED + REFUSED_IN_CHATS))
def test_a_chat_names_the_parameter_that_it_refuses(body: dict[str, Any], param: str) -> None:
    with pytest.raises(ApiError) as raised:
        chat(**body)
    assert (raised.value.status, raised.value.param) == (400, param)


@pytest.mark.parametrize(("missing", "parse"), [("prompt", parse_completion), ("messages", parse_chat)])
def test_a_missing_parameter_is_named(missing: str, parse: Any) -> None:
    with pytest.raises(ApiError) as raised:
        parse(b'{"model": "m"}')
    assert (raised.value.param, raised.value.code) == (missing, "missing_required_parameter")


def test_long_values_are_cut_in_messages() -> None:
    with pytest.raises(ApiError) as raised:
        completion(temperature="x" * 10_000)
    assert len(raised.value.message) < 300


@pytest.mark.parametrize(
    "body",
    [
        {"user": "me", "store": True, "metadata": {"a": "b"}, "service_tier": "auto", "prompt_cache_key": "k"},
        {
            "n": 1,
            "logprobs": None,
            "sampler": None,
            "presence_penalty": 0,
            "frequency_penalty": 0.0,
            "logit_bias": {},
        },
        {"tools": [], "tool_choice": "none", "parallel_tool_calls": True, "response_format": {"type": "text"}},
        {"temperature": None, "top_p": None, "max_tokens": None, "seed": None, "stop": None, "stream": None},
        {"stream": True, "stream_options": {"include_usage": True, "include_obfuscation": False}},
        {"temperature": 0, "top_p": 1, "max_tokens": 1, "seed": 0, "stop": "x"},
        {"temperature": 2, "stop": ["a", "b", "c", "d"], "seed": 2**63 - 1},
    ],
)
def test_what_asks_for_nothing_special_is_accepted(body: dict[str, Any]) -> None:
    assert completion(**body) is not None
    assert chat(**body) is not None


@pytest.mark.parametrize(
    ("prompt", "expected"),
    [
        ("x", ("x",)),
        (["x"], ("x",)),
        ([1, 2], ((1, 2),)),
        ([[1, 2]], ((1, 2),)),
        ("", ("",)),
        (["x", [1, 2], "y"], ("x", (1, 2), "y")),
    ],
)
def test_prompts_come_as_text_or_tokens_alone_or_in_a_list(prompt: Any, expected: Any) -> None:
    assert completion(prompt=prompt).prompts == expected


def test_each_prompt_of_a_batch_has_its_choices_one_after_another() -> None:
    rows = completion(prompt=["a", [1]], n=2).to_wire(request_id="r", seed=9)
    assert [(row.prompt, row.prompt_token_ids) for row in rows] == [("a", None)] * 2 + [(None, [1])] * 2
    assert [row.request_id for row in rows] == ["r.0", "r.1", "r.2", "r.3"]


def test_a_prompt_in_a_batch_gets_the_answer_that_it_would_get_alone() -> None:
    rows = completion(prompt=["a", "b"], n=2).to_wire(request_id="r", seed=9)
    alone = completion(prompt="b", n=2).to_wire(request_id="r", seed=9)
    assert [row.seed for row in rows[2:]] == [row.seed for row in alone]


def test_the_same_prompt_again_in_a_batch_gets_another_answer_as_with_more_choices() -> None:
    rows = completion(prompt=["a", "b", "a"], n=2).to_wire(request_id="r", seed=9)
    choices = completion(prompt="a", n=4).to_wire(request_id="r", seed=9)
    assert [row.seed for row in rows if row.prompt == "a"] == [row.seed for row in choices]


def test_text_parts_are_joined_and_answers_can_be_sent_back() -> None:
    parts = [{"type": "text", "text": "a"}, {"type": "text", "text": "b"}]
    back = {"role": "assistant", "content": "c", "refusal": None, "tool_calls": None, "annotations": []}
    parsed = chat(messages=[{"role": "user", "content": parts, "name": "me"}, back])
    assert [(message.role, message.content) for message in parsed.messages] == [("user", "ab"), ("assistant", "c")]


def test_both_names_of_the_token_limit_may_agree() -> None:
    assert chat(max_tokens=5, max_completion_tokens=5).max_tokens == 5
    assert chat(max_completion_tokens=6).max_tokens == 6


def test_the_wire_request_says_what_the_client_said() -> None:
    (wire,) = completion(prompt=[4, 5], stop="END", temperature=0.3).to_wire(request_id="r", seed=9)
    assert (wire.prompt, wire.prompt_token_ids, wire.messages) == (None, [4, 5], None)
    assert (wire.stop, wire.temperature, wire.seed, wire.request_id) == (["END"], 0.3, 9, "r")


def test_what_only_ar_can_honour_is_marked_as_such() -> None:
    body = {"presence_penalty": 0.5, "frequency_penalty": -1, "logit_bias": {"7": -100, "8": 1}, "logprobs": 0}
    (wire,) = completion(**body).to_wire(request_id="r", seed=9)
    assert wire.autoregressive_only == ("presence_penalty", "frequency_penalty", "logit_bias", "logprobs")
    assert (wire.presence_penalty, wire.frequency_penalty, wire.logit_bias) == (0.5, -1, {7: -100, 8: 1})
    (plain,) = completion(presence_penalty=0, frequency_penalty=0, logit_bias={}).to_wire(request_id="r", seed=9)
    assert plain.autoregressive_only == ()


@pytest.mark.parametrize(
    ("body", "expected"),
    [
        ({}, None),
        ({"logprobs": False}, None),
        ({"top_logprobs": 0}, None),
        ({"logprobs": True}, 0),
        ({"logprobs": True, "top_logprobs": 5}, 5),
    ],
)
def test_chats_ask_for_log_probabilities_with_two_parameters(body: dict[str, Any], expected: int | None) -> None:
    assert chat(**body).logprobs == expected


def test_the_sampler_reaches_the_wire_field_by_field() -> None:
    sampler = {
        "name": "discrete_ddim",
        "max_denoising_steps": 12,
        "schedule": "cosine",
        "adaptive": True,
        "temperature_min": 0.5,
        "temperature_max": 1,
        "top_p": 0.9,
        "guidance_scale": 0,
        "deterministic": False,
        "stochasticity": 0.5,
        "stability_threshold": 2,
        "confidence_threshold": 0.1,
        "entropy_bound": 0.3,
        "accept_threshold": 0.9,
    }
    assert sampler.keys() == SamplerSettings.model_fields.keys(), "a setting was added: add it here"
    (wire,) = chat(sampler=sampler).to_wire(request_id="r", seed=9)
    assert wire.sampler.model_dump(mode="json") == sampler
    assert REQUEST.validate_json(encode_request(wire)) == wire


def test_every_choice_has_a_seed_of_its_own_and_the_first_the_requests() -> None:
    choices = completion(n=3).to_wire(request_id="r", seed=9)
    assert [choice.request_id for choice in choices] == ["r.0", "r.1", "r.2"]
    assert choices[0].seed == 9
    assert len({choice.seed for choice in choices}) == 3
    assert choices == completion(n=3).to_wire(request_id="r", seed=9)
    assert choices[:2] == completion(n=2).to_wire(request_id="r", seed=9)


@pytest.mark.parametrize("raw", [b"", b"{", b"null", b'"x"', b"\xff", b'{"model": "\\ud800"}', b"[" * 100_000])
def test_what_is_no_json_object_is_refused(raw: bytes) -> None:
    with pytest.raises(ApiError) as raised:
        parse_chat(raw)
    assert (raised.value.status, raised.value.code) == (400, "invalid_json")


@pytest.mark.parametrize("value", ["NaN", "Infinity", "1e999"])
def test_numbers_that_are_none_are_refused(value: str) -> None:
    with pytest.raises(ApiError) as raised:
        parse_completion(f'{{"model": "m", "prompt": "x", "temperature": {value}}}'.encode())
    assert raised.value.param == "temperature"
