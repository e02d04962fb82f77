"""Real requests through gateway, Triton and engine with the official client."""

import json
from concurrent.futures import ThreadPoolExecutor

import httpx2
import openai
import pytest

from tests.e2e import gateways

MODEL = "storyteller"
QUESTION = [{"role": "user", "content": "Tell me a story about a fox."}]


@pytest.mark.parametrize("arm", ["stable", "fallback"])
def test_both_arms_answer_with_exactly_max_tokens_or_stop(cluster, arm):
    answer = cluster.client().completions.create(
        model=MODEL, prompt="Once upon a time", max_tokens=40, extra_headers={"x-diffusion-arm": arm}
    )

    assert answer.choices[0].text.strip()
    assert answer.usage is not None
    assert answer.usage.prompt_tokens > 0
    if answer.choices[0].finish_reason == "length":
        assert answer.usage.completion_tokens == 40
    else:
        assert answer.choices[0].finish_reason == "stop"
        assert answer.usage.completion_tokens <= 40


def test_a_stream_has_the_text_of_the_same_request_in_one_piece(cluster):
    ask = {"model": MODEL, "messages": QUESTION, "max_tokens": 150, "seed": 7, "temperature": 0.8}

    whole = cluster.client().chat.completions.create(**ask).choices[0].message.content
    chunks = list(cluster.client().chat.completions.create(**ask, stream=True, stream_options={"include_usage": True}))

    pieces = [chunk.choices[0].delta.content or "" for chunk in chunks if chunk.choices]
    assert "".join(pieces) == whole
    assert sum(bool(piece) for piece in pieces) >= 2, "150 tokens are three canvases of 64: more than one block"
    assert chunks[-1].usage is not None


def test_the_tokens_of_a_seeded_request_do_not_depend_on_its_neighbours(cluster):
    ask = {"model": MODEL, "prompt": "Once upon a time", "max_tokens": 64, "seed": 11}
    alone = cluster.client().completions.create(**ask).choices[0].text

    streams = [
        cluster.client().completions.create(
            model=MODEL, prompt=f"There was a fox {n}", max_tokens=128, seed=n, stream=True
        )
        for n in range(4)
    ]
    for stream in streams:
        next(iter(stream))
    crowded = cluster.client().completions.create(**ask).choices[0].text
    for stream in streams:
        stream.close()

    assert crowded == alone


@pytest.mark.parametrize(
    ("change", "status", "parameter"),
    [
        ({"model": "nobody"}, 404, "model"),
        ({"max_tokens": 0}, 400, "max_tokens"),
        ({"temperature": 9.0}, 400, "temperature"),
        ({"n": 9}, 400, "n"),
        ({"tools": [{"type": "function", "function": {"name": "look", "parameters": {}}}]}, 400, "tools"),
        ({"extra_body": {"sampler": {"max_denoising_steps": 0}}}, 400, "sampler.max_denoising_steps"),
        ({"max_tokens": 64, "extra_body": {"sampler": {"accept_threshold": 0.5}}}, 400, "sampler.accept_threshold"),
        ({"messages": [{"role": "user", "content": "fox " * 9000}]}, 400, "messages"),
    ],
)
def test_what_cannot_be_honoured_is_refused_by_name(cluster, change, status, parameter):
    with pytest.raises(openai.APIStatusError) as refused:
        cluster.client().chat.completions.create(**{"model": MODEL, "messages": QUESTION, "max_tokens": 8, **change})

    assert refused.value.status_code == status
    assert refused.value.body["param"] == parameter
    assert refused.value.body["message"]


@pytest.mark.parametrize(
    "sampler",
    [
        {"max_denoising_steps": 10, "schedule": "cosine", "adaptive": True},
        {"name": "discrete_ddim", "stochasticity": 0.5},
        {"name": "block_refinement", "accept_threshold": 0.9, "guidance_scale": 0.8},
        {"deterministic": True, "temperature_min": 0.8, "temperature_max": 1.2, "top_p": 0.9},
    ],
)
def test_a_request_chooses_its_sampler_and_the_seed_it_gets_back_replays_it(cluster, sampler):
    ask = {"model": MODEL, "messages": QUESTION, "max_tokens": 64, "extra_body": {"sampler": sampler}}
    first = cluster.client().chat.completions.create(**ask)
    again = cluster.client().chat.completions.create(**ask, seed=first.usage.seed)

    assert first.choices[0].message.content
    assert again.choices[0].message.content == first.choices[0].message.content


def test_log_probabilities_and_penalties_are_answered_by_the_autoregressive_arm(cluster):
    answer = cluster.client().chat.completions.create(
        model=MODEL, messages=QUESTION, max_tokens=64, logprobs=True, top_logprobs=2, frequency_penalty=0.5
    )

    tokens = answer.choices[0].logprobs.content
    assert len(tokens) == answer.usage.completion_tokens
    assert all(len(token.top_logprobs) == 2 and token.logprob <= 0 for token in tokens)


def test_the_model_list_names_the_model(cluster):
    assert MODEL in [model.id for model in cluster.client().models.list()]


def test_more_requests_than_rows_all_end_in_an_answer_or_a_429_with_retry_after(cluster):
    body = {"model": MODEL, "prompt": "Once upon a time", "max_tokens": 32}
    with httpx2.Client(base_url=cluster.url, timeout=120) as client, ThreadPoolExecutor(24) as pool:
        answers = list(pool.map(lambda _: client.post("/v1/completions", json=body), range(48)))

    assert {answer.status_code for answer in answers} <= {200, 429}
    assert any(answer.status_code == 200 for answer in answers)
    for answer in answers:
        if answer.status_code == 429:
            assert int(answer.headers["retry-after"]) >= 1


def test_metrics_of_gateway_and_worker_count_the_requests(cluster):
    for address in gateways.pods(cluster).values():
        assert "diffusion_gateway_requests_total" in gateways.metrics(address)
    selector = "serving.diffusion-operator.dev/kind=diffusion,serving.diffusion-operator.dev/model=storyteller"
    pod = cluster.ready_pods(selector)[0]
    worker = cluster.kubectl("get", "--raw", f"/api/v1/namespaces/default/pods/{pod}:8002/proxy/metrics")
    assert "dlm_denoising_steps" in worker


def test_neither_operator_nor_gateway_contains_torch(cluster):
    for component in ("operator", "gateway"):
        pod = cluster.ready_pods(f"app.kubernetes.io/component={component}", namespace="diffusion-system")[0]
        probe = "import importlib.util as u, json; print(json.dumps([u.find_spec(m) is not None for m in ('torch', 'pydantic')]))"
        found = cluster.kubectl("exec", "-n", "diffusion-system", pod, "--", "python", "-c", probe)
        assert json.loads(found) == [False, True]
