"""What can be wrong with work that is done without a server."""

from pydantic import ValidationError


class OfflineError(Exception):
    """The work could not be done. The message is for the person at the terminal."""


def explained(error: ValidationError) -> str:
    """The first thing that is wrong, with its value."""
    fault = error.errors(include_url=False, include_context=False)[0]
    where = ".".join(map(str, fault["loc"]))
    given = repr(fault["input"])
    got = f" (got {given})" if where and len(given) <= 80 else ""
    return f"{where + ': ' if where else ''}{fault['msg']}{got}"
