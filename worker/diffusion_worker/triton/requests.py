"""From what Triton hands over to a request, and what was said beside it."""

import json
import re
from collections.abc import Sequence
from dataclasses import dataclass

from pydantic import ValidationError

from diffusion_worker.wire import (
    REQUEST,
    REVISION_PARAMETER,
    TRACEPARENT_PARAMETER,
    ErrorEvent,
    GenerateRequest,
    ScoreRequest,
)

_TRACEPARENT = re.compile(r"[0-9a-f]{2}-[0-9a-f]{32}-[0-9a-f]{16}-[0-9a-f]{2}")


class UnreadableRequestError(Exception):
    """A request that the engine never sees; carries the event for its client."""

    def __init__(self, message: str, *, param: str | None = None) -> None:
        super().__init__(message)
        self.event = ErrorEvent(code="invalid_request", message=message, param=param)


def read_request(elements: Sequence[bytes]) -> GenerateRequest | ScoreRequest:
    """The request in a tensor's elements, of which there must be exactly one; raises UnreadableRequestError."""
    if len(elements) != 1:
        raise UnreadableRequestError(f"the tensor has {len(elements)} elements; send one request per call")
    try:
        return REQUEST.validate_json(elements[0])
    except ValidationError as error:
        fault = error.errors(include_url=False, include_context=False)[0]
        param = ".".join(map(str, fault["loc"][1:])) or None  # behind the kind of the request
        if fault["type"] == "json_invalid":
            raise UnreadableRequestError(f"the request is not JSON: {fault['msg']}") from error
        given = repr(fault["input"])
        got = f" (got {given})" if param is not None and len(given) <= 80 else ""
        raise UnreadableRequestError(f"{param + ': ' if param else ''}{fault['msg']}{got}", param=param) from error


@dataclass(frozen=True)
class RequestParameters:
    """What a gateway says beside the tensor. None: nothing, or nothing that can be read."""

    revision: str | None = None  # that it believes to be talking to
    traceparent: str | None = None


def read_parameters(text: str) -> RequestParameters:
    """Triton's parameters of a request, a JSON object. Those that are not known, or not as expected, say nothing."""
    try:
        given = json.loads(text)
    except ValueError:
        return RequestParameters()
    if not isinstance(given, dict):
        return RequestParameters()
    revision, traceparent = given.get(REVISION_PARAMETER), given.get(TRACEPARENT_PARAMETER)
    return RequestParameters(
        revision=revision if isinstance(revision, str) else None,
        traceparent=traceparent if isinstance(traceparent, str) and _TRACEPARENT.fullmatch(traceparent) else None,
    )
