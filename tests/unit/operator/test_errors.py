"""Errors of the outer world in the terms in which the loop reacts."""

import json

import aiohttp
import pytest
from diffusion_operator.adapters.errors import (
    AdapterError,
    ConflictError,
    InvalidError,
    NotFoundError,
    TransientError,
    from_response,
    translated,
)


@pytest.mark.parametrize(
    ("status", "kind"),
    [
        (404, NotFoundError),
        (409, ConflictError),
        (400, InvalidError),
        (403, InvalidError),
        (422, InvalidError),
        (401, TransientError),
        (410, TransientError),
        (429, TransientError),
        (500, TransientError),
        (503, TransientError),
    ],
)
def test_each_status_has_its_meaning(status: int, kind: type[AdapterError]) -> None:
    assert type(from_response("apply x", status=status, body="")) is kind


def test_the_message_is_what_the_api_server_said() -> None:
    body = json.dumps({"kind": "Status", "message": "exceeded quota"})
    assert str(from_response("apply Deployment a/b", status=403, body=body)) == "apply Deployment a/b: exceeded quota"


def test_a_body_that_is_no_status_is_quoted() -> None:
    assert str(from_response("read x", status=502, body="bad gateway")) == "read x: bad gateway"
    assert str(from_response("read x", status=502, body="")) == "read x: HTTP 502"


@pytest.mark.parametrize(("header", "seconds"), [("7", 7.0), (None, None), ("Wed, 21 Oct 2026 07:28:00 GMT", None)])
def test_a_server_may_ask_for_time(header: str | None, seconds: float | None) -> None:
    error = from_response("read x", status=429, body="", retry_after=header)
    assert isinstance(error, TransientError)
    assert error.retry_after_seconds == seconds


@pytest.mark.parametrize("raised", [TimeoutError(), TimeoutError(), aiohttp.ClientError("reset"), OSError("x")])
def test_the_network_is_transient(raised: Exception) -> None:
    with pytest.raises(TransientError, match="read x"), translated("read x"):
        raise raised


def test_a_mistake_of_ours_stays_one() -> None:
    with pytest.raises(KeyError), translated("read x"):
        raise KeyError("x")
