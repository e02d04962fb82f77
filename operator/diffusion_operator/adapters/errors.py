"""Errors of the outer world, in the terms in which the loop reacts to them."""

import json
from collections.abc import Iterator
from contextlib import contextmanager

import aiohttp
from kubernetes.aio.client.exceptions import ApiException


class AdapterError(Exception):
    """Something outside did not do what we asked."""


class NoClusterError(AdapterError):
    """Nothing that we were given leads to a cluster. The message says what to do."""


class NotFoundError(AdapterError):
    """The object is gone. Nothing to do."""


class ConflictError(AdapterError):
    """Someone wrote the object since we read it. Read again and decide again."""


class InvalidError(AdapterError):
    """The API server refuses what we ask for, and will again. A person must know: it becomes a condition."""


class TransientError(AdapterError):
    """It may work later: no connection, a timeout, an overloaded or failing server."""

    def __init__(self, message: str, *, retry_after_seconds: float | None = None) -> None:
        super().__init__(message)
        self.retry_after_seconds = retry_after_seconds


_REFUSED = frozenset({400, 403, 405, 413, 415, 422})


@contextmanager
def translated(what: str) -> Iterator[None]:
    """Turn whatever the client raises into an error of ours. `what` says what was tried, such as `apply Deployment a/b`."""
    try:
        yield
    except ApiException as error:
        raise from_response(what, status=error.status or 0, body=str(error.body or error.reason or "")) from error
    except TimeoutError as error:
        raise TransientError(f"{what}: no answer in time") from error
    except (aiohttp.ClientError, OSError, json.JSONDecodeError) as error:
        raise TransientError(f"{what}: {error or type(error).__name__}") from error


def from_response(what: str, *, status: int, body: str, retry_after: str | None = None) -> AdapterError:
    """The error for an HTTP status that is not a success."""
    message = f"{what}: {_message(body) or f'HTTP {status}'}"
    if status == 404:
        return NotFoundError(message)
    if status == 409:
        return ConflictError(message)
    if status in _REFUSED:
        return InvalidError(message)
    seconds = float(retry_after) if retry_after and retry_after.isdigit() else None
    return TransientError(message, retry_after_seconds=seconds)


def _message(body: str) -> str:
    """What a Status object says, or the beginning of another body."""
    try:
        status = json.loads(body)
    except ValueError:
        status = None
    text = status.get("message", "") if isinstance(status, dict) else body
    return str(text)[:1000]
