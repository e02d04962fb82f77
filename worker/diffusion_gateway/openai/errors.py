"""Errors as OpenAI's clients expect them: `{"error": {"message", "type", "param", "code"}}`."""

from typing import Any

_TYPES = {429: "rate_limit_error"}


class ApiError(Exception):
    """What the client is told. `message` says what was wrong, with which value, and what to do."""

    def __init__(
        self,
        status: int,
        message: str,
        *,
        code: str,
        param: str | None = None,
        retry_after_seconds: int | None = None,
    ) -> None:
        super().__init__(message)
        self.status = status
        self.message = message
        self.code = code
        self.param = param
        self.retry_after_seconds = retry_after_seconds

    def body(self) -> dict[str, Any]:
        """The JSON body."""
        default = "server_error" if self.status >= 500 else "invalid_request_error"
        kind = _TYPES.get(self.status, default)
        return {"error": {"message": self.message, "type": kind, "param": self.param, "code": self.code}}

    def headers(self) -> dict[str, str]:
        """Headers that go with the body."""
        headers = {"www-authenticate": "Bearer"} if self.status == 401 else {}
        if self.retry_after_seconds is not None:
            headers["retry-after"] = str(self.retry_after_seconds)
        return headers


def invalid_parameter(param: str, message: str, *, code: str = "invalid_value") -> ApiError:
    """400: a parameter that the model cannot honour."""
    return ApiError(400, message, code=code, param=param)


def model_not_found(name: str) -> ApiError:
    """404. Does not list what exists: /v1/models is there for that."""
    return ApiError(
        404,
        f"The model {name!r} does not exist here. GET /v1/models lists the names.",
        code="model_not_found",
        param="model",
    )


def invalid_api_key(message: str) -> ApiError:
    """401. Never repeats what was sent."""
    return ApiError(401, message, code="invalid_api_key")


def overloaded(message: str, *, retry_after_seconds: int) -> ApiError:
    """429: a queue is full. Clients may retry."""
    return ApiError(429, message, code="overloaded", retry_after_seconds=retry_after_seconds)


def unavailable(message: str) -> ApiError:
    """503: nobody is left who could answer."""
    return ApiError(503, message, code="model_unavailable", retry_after_seconds=1)
