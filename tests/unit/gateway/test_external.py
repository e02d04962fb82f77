"""What an AR server says, in our terms."""

import pytest
from diffusion_gateway.external.chunks import Answer, Chunk, token_likelihoods
from diffusion_gateway.external.failures import failed
from diffusion_gateway.external.sse import MAX_EVENT_BYTES, ServerSentEvents, TooLongError
from diffusion_gateway.reasons import WorkerError
from diffusion_gateway.resources import read_model
from diffusion_worker.wire import BlockEvent, ErrorEvent, GenerateRequest

REQUEST = GenerateRequest(request_id="r", prompt="x", seed=5)


def test_an_event_without_an_end_is_given_up() -> None:
    events = ServerSentEvents()
    with pytest.raises(TooLongError):
        events.feed(b"data: " + b"x" * MAX_EVENT_BYTES)


def test_thoughts_are_no_text_but_a_sign_of_life() -> None:
    answer = Answer(REQUEST)
    thought = answer.read(Chunk.model_validate({"choices": [{"delta": {"reasoning_content": "Hm"}}]}))
    assert thought == BlockEvent(index=0, text="", tokens=0, steps=1)
    assert answer.read(Chunk.model_validate({"choices": [{"delta": {"role": "assistant", "content": ""}}]})) is None


def test_an_answer_without_a_reason_to_end_broke_off() -> None:
    answer = Answer(REQUEST)
    answer.read(Chunk.model_validate({"choices": [{"text": "Once"}]}))
    assert answer.end() is None


@pytest.mark.parametrize(("reason", "ours"), [("stop", "stop"), ("length", "length"), ("content_filter", "stop")])
def test_why_it_ended(reason: str, ours: str) -> None:
    answer = Answer(REQUEST)
    answer.read(Chunk.model_validate({"choices": [{"text": "", "finish_reason": reason}]}))
    finish = answer.end()
    assert finish is not None
    assert (finish.reason, finish.seed) == (ours, 5)


def test_half_a_character_and_no_likelihood_at_all() -> None:
    given = {"tokens": ["bytes:\\xe2\\x80", "a"], "token_logprobs": [-1.5, None], "top_logprobs": None}
    half, none = token_likelihoods(given)
    assert bytes(half.utf8) == b"\xe2\x80"
    assert none.logprob == -9999


BODIES = {
    "OpenAI's form": b'{"error": {"message": "no such thing", "param": "seed", "code": "x"}}',
    "vLLM's older form": b'{"object": "error", "message": "no such thing", "code": 400}',
    "FastAPI's form": b'{"detail": "no such thing"}',
    "text in an object": b'{"error": "no such thing"}',
    "text": b"no such\n thing",
}


@pytest.mark.parametrize("body", BODIES.values(), ids=BODIES.keys())
def test_the_servers_own_words_are_quoted(body: bytes) -> None:
    refused = failed(400, body)
    assert isinstance(refused, ErrorEvent)
    assert refused.message.endswith("refuses the request: no such thing")
    other = failed(500, body)
    assert isinstance(other, WorkerError)
    assert other.message == "the server answered 500: no such thing"


def test_a_long_answer_is_not_quoted_in_full() -> None:
    refused = failed(400, b"x" * 100_000)
    assert isinstance(refused, ErrorEvent)
    assert len(refused.message) < 600


@pytest.mark.parametrize("endpoint", [{"url": "http://a/v1"}, "http://a/v1", 7])
def test_an_endpoint_of_another_release_does_not_hide_the_model(endpoint: object) -> None:
    model = read_model({"metadata": {"name": "a", "namespace": "b"}, "spec": {"fallback": {"endpoint": endpoint}}})
    assert model is not None
    assert model.endpoint is None
