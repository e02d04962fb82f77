"""From the bytes of Triton's input tensor to a request."""

from collections.abc import Sequence

from pydantic import ValidationError

from diffusion_worker.wire import REQUEST, ErrorEvent, GenerateRequest, ScoreRequest


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
