"""What the gateway makes of what a worker sends."""

import numpy as np
import pytest
from diffusion_gateway.reasons import Reason, WorkerError
from diffusion_gateway.triton import _event
from diffusion_worker.wire import BlockEvent


class Result:
    """Stands for tritonclient's `InferResult`."""

    def __init__(self, text: str) -> None:
        self._text = text

    def as_numpy(self, _: str) -> "np.ndarray":
        return np.array([self._text.encode()], dtype=np.object_)


STRANGE = {
    "a field that is missing": '{"type": "block", "index": 0, "text": "a secret story", "steps": 1}',
    "a field of another type": '{"type": "block", "index": 0, "text": ["a secret story"], "tokens": 1, "steps": 1}',
    "another type of event": '{"type": "a secret story"}',
    "no JSON": '{"type": "block", "text": "a secret story',
}


@pytest.mark.parametrize("text", STRANGE.values(), ids=STRANGE.keys())
def test_an_event_that_cannot_be_read_is_told_without_its_text(text: str) -> None:
    told = _event(Result(text), None)  # type: ignore[arg-type]
    assert isinstance(told, WorkerError)
    assert told.reason is Reason.ENGINE_ERROR
    assert "no event" in told.message
    assert "secret" not in told.message


def test_what_a_newer_worker_says_beside_the_known_does_not_stop_the_gateway() -> None:
    newer = '{"type": "block", "index": 0, "text": "Once", "tokens": 1, "steps": 1, "mood": "good"}'
    assert _event(Result(newer), None) == BlockEvent(index=0, text="Once", tokens=1, steps=1)  # type: ignore[arg-type]
