"""What the gateway makes of what a worker sends."""

import struct
from typing import Any

import pytest
from diffusion_gateway.reasons import Reason, WorkerError
from diffusion_gateway.triton import _event
from diffusion_worker.wire import BlockEvent
from tritonclient.grpc import service_pb2


def response(text: str) -> Any:
    data = text.encode()
    contents = [struct.pack("<I", len(data)) + data]
    return service_pb2.ModelStreamInferResponse(
        infer_response=service_pb2.ModelInferResponse(raw_output_contents=contents)
    )


STRANGE = {
    "a field that is missing": '{"type": "block", "index": 0, "text": "a secret story", "steps": 1}',
    "a field of another type": '{"type": "block", "index": 0, "text": ["a secret story"], "tokens": 1, "steps": 1}',
    "another type of event": '{"type": "a secret story"}',
    "no JSON": '{"type": "block", "text": "a secret story',
}


@pytest.mark.parametrize("text", STRANGE.values(), ids=STRANGE.keys())
def test_an_event_that_cannot_be_read_is_told_without_its_text(text: str) -> None:
    told = _event(response(text))
    assert isinstance(told, WorkerError)
    assert told.reason is Reason.ENGINE_ERROR
    assert "no event" in told.message
    assert "secret" not in told.message


def test_what_a_newer_worker_says_beside_the_known_does_not_stop_the_gateway() -> None:
    newer = '{"type": "block", "index": 0, "text": "Once", "tokens": 1, "steps": 1, "mood": "good"}'
    assert _event(response(newer)) == BlockEvent(index=0, text="Once", tokens=1, steps=1)


def test_a_response_without_an_event_is_told() -> None:
    told = _event(service_pb2.ModelStreamInferResponse())
    assert isinstance(told, WorkerError)
    assert told.reason is Reason.ENGINE_ERROR
