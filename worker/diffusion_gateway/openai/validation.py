"""From pydantic's errors to what a client is told: the first thing that is wrong, by its name, with its value."""

from pydantic import ValidationError

from .errors import ApiError, invalid_parameter


def first_fault(error: ValidationError, *, within: str | None = None) -> ApiError:
    """The first thing that is wrong, in a client's words; `within` is the parameter that was validated, None: the body."""
    first = error.errors(include_url=False, include_context=False)[0]
    param = ".".join(str(part) for part in (*([within] if within else []), *first["loc"]))
    match first["type"]:
        case "missing":
            return invalid_parameter(param, f"{param} is missing; it is required.", code="missing_required_parameter")
        case "extra_forbidden":
            return invalid_parameter(
                param, f"{param} is not a parameter of this API; leave it out.", code="unknown_parameter"
            )
    return invalid_parameter(
        param, f"{param}={shortened(first['input'])} is not allowed: {first['msg'][0].lower()}{first['msg'][1:]}."
    )


def shortened(value: object) -> str:
    """A value as it is shown in messages."""
    text = repr(value)
    return text if len(text) <= 80 else f"{text[:77]}..."
