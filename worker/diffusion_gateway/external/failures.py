"""What an HTTP status, an error in a stream or a broken connection of an AR server means here: pure.

Messages go into logs, and those of refusals to the client: they hold what the server says, never what was sent, and no key.
"""

import json
from typing import Any

import aiohttp
from diffusion_worker.wire import ErrorEvent

from ..reasons import Reason, WorkerError

_LONGEST_QUOTE = 400
_AT_FAULT = frozenset({400, 413, 422})
_WITHOUT_LENGTH = (
    "context length",
    "context_length",
    "maximum context",
    "max_model_len",
    "too many tokens",
    "too long",
)


def failed(status: int, body: bytes) -> ErrorEvent | WorkerError:
    """What a response that is no answer means."""
    error = error_in(body)
    said = quoted(error, body)
    if status in _AT_FAULT:
        return _refused(said, error)
    match status:
        case 401 | 403:
            return WorkerError(Reason.UNAUTHORIZED, f"the server refuses the key with {status}: {said}")
        case 408 | 504:
            return WorkerError(Reason.TIMEOUT, f"the server gave up with {status}: {said}")
        case 429:
            return WorkerError(Reason.QUEUE_FULL, f"the server has too many requests: {said}")
        case 503:
            return WorkerError(Reason.UNAVAILABLE, f"the server is not available: {said}")
    return WorkerError(Reason.ENGINE_ERROR, f"the server answered {status}: {said}")


def failed_in_stream(error: dict[str, Any]) -> ErrorEvent | WorkerError:
    """What an error means that comes where a chunk was due."""
    code = error.get("code")
    status = code if isinstance(code, int) else {"rate_limit_error": 429, "overloaded": 429}.get(str(error.get("type")))
    return failed(status or 500, json.dumps({"error": error}).encode())


def broken(error: aiohttp.ClientError | OSError) -> WorkerError:
    """What a connection means that cannot be made, or broke."""
    return WorkerError(Reason.UNAVAILABLE, f"{type(error).__name__}: {error}"[:_LONGEST_QUOTE])


def error_in(body: bytes) -> dict[str, Any]:
    """The object in `{"error": {...}}`, or what comes nearest to it."""
    try:
        found = json.loads(body)
    except ValueError:
        return {}
    inner = found.get("error", found) if isinstance(found, dict) else {}
    return inner if isinstance(inner, dict) else {"message": inner}


def quoted(error: dict[str, Any], body: bytes) -> str:
    """The server's own words, shortened."""
    message = error.get("message") or error.get("detail")
    said = message if isinstance(message, str) else body.decode(errors="replace")
    return " ".join(said.split())[:_LONGEST_QUOTE] or "nothing more"


def _refused(said: str, error: dict[str, Any]) -> ErrorEvent:
    """The request is at fault: nobody else is asked, and the client is told."""
    is_too_long = any(words in f"{error.get('code')} {said}".lower() for words in _WITHOUT_LENGTH)
    param = error.get("param")
    return ErrorEvent(
        code="context_length_exceeded" if is_too_long else "invalid_request",
        message=f"The autoregressive server behind this model refuses the request: {said}",
        param=param if isinstance(param, str) else None,
    )
