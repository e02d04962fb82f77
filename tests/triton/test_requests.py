"""What stands in Triton's input tensor becomes a request, or an error of a bounded size."""

import json

import pytest
from diffusion_worker.triton.requests import RequestParameters, UnreadableRequestError, read_parameters, read_request
from diffusion_worker.wire import REQUEST
from pydantic import ValidationError


@pytest.mark.parametrize(
    ("field", "entries"),
    [("prompt_token_ids", ["a"] * 1000), ("messages", [{"role": "nobody"}] * 1000)],
)
def test_a_list_of_wrong_entries_is_refused_at_the_first(field: str, entries: list[object]) -> None:
    payload = json.dumps({"request_id": "r", field: entries}).encode()
    with pytest.raises(ValidationError) as caught:
        REQUEST.validate_json(payload)
    assert {fault["loc"][2] for fault in caught.value.errors()} == {0}
    with pytest.raises(UnreadableRequestError) as refused:
        read_request([payload])
    assert str(refused.value.event.param).startswith(f"{field}.0")


@pytest.mark.parametrize("field", ["entropy_bound", "confidence_threshold", "temperature_max"])
@pytest.mark.parametrize("number", ["Infinity", "NaN"])
def test_a_setting_that_json_could_not_carry_on_is_refused(field: str, number: str) -> None:
    payload = f'{{"request_id": "r", "prompt": "x", "sampler": {{"{field}": {number}}}}}'.encode()
    with pytest.raises(UnreadableRequestError, match=f"sampler.{field}"):
        read_request([payload])


@pytest.mark.parametrize("payload", [b"", b"\xff", b"[" * 100_000, b"[]", b"5", b'{"type": 5}', b'{"type": "x"}'])
def test_no_bytes_are_worse_than_a_refused_request(payload: bytes) -> None:
    with pytest.raises(UnreadableRequestError):
        read_request([payload])


TRACE = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01"


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("{}", RequestParameters()),
        ('{"revision": "0a1b2c3d"}', RequestParameters(revision="0a1b2c3d")),
        (json.dumps({"traceparent": TRACE, "else": 5}), RequestParameters(traceparent=TRACE)),
        ('{"revision": 5, "traceparent": true}', RequestParameters()),
        (json.dumps({"traceparent": f"{TRACE}\nforged line"}), RequestParameters()),
        ("", RequestParameters()),
        ("[1]", RequestParameters()),
    ],
)
def test_what_is_said_beside_a_request_is_read_or_says_nothing(text: str, said: RequestParameters) -> None:
    assert read_parameters(text) == said
