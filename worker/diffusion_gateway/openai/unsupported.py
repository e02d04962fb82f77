"""Parameters of OpenAI's API that this gateway does not act on: refused by name unless they ask for nothing, or harmless."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from .errors import invalid_parameter
from .validation import shortened

# They label, store or bill a request and cannot change a token of the answer.
HARMLESS = frozenset(
    {
        "metadata",
        "prompt_cache_key",
        "prompt_cache_retention",
        "safety_identifier",
        "service_tier",
        "store",
    }
)


@dataclass(frozen=True)
class _Neutral:
    """Values with which a parameter asks for nothing, and what to do instead of any other."""

    values: tuple[Any, ...]
    remedy: str


_LEAVE_OUT = "leave it out"
_TOOLS = _Neutral(([],), "leave it out; this model calls no tools")
_NEUTRAL: Mapping[str, _Neutral] = {
    "audio": _Neutral((), _LEAVE_OUT),
    "best_of": _Neutral((1,), "ask for n choices and choose yourself"),
    "echo": _Neutral((False,), "prepend the prompt yourself"),
    "function_call": _Neutral(("none",), "leave it out; this model calls no functions"),
    "functions": _TOOLS,
    "modalities": _Neutral((["text"],), "this model writes text only"),
    "parallel_tool_calls": _Neutral((True, False), _LEAVE_OUT),
    "prediction": _Neutral((), _LEAVE_OUT),
    "response_format": _Neutral(({"type": "text"},), "ask for the format in the prompt"),
    "suffix": _Neutral(("",), "this model continues a prompt and fills no gaps"),
    "tool_choice": _Neutral(("none", "auto"), "leave it out; this model calls no tools"),
    "tools": _TOOLS,
}


def without_unsupported(body: dict[str, Any]) -> dict[str, Any]:
    """What is left to be read. Raises `ApiError` for the first parameter that asks for what we cannot do."""
    for name, neutral in _NEUTRAL.items():
        if name in body and body[name] is not None and not _is_neutral(body[name], neutral):
            raise invalid_parameter(
                name,
                f"{name}={shortened(body[name])} is not supported: {neutral.remedy}.",
                code="unsupported_parameter",
            )
    return {name: value for name, value in body.items() if name not in HARMLESS and name not in _NEUTRAL}


def _is_neutral(value: Any, neutral: _Neutral) -> bool:
    # 1 == True in Python, but n=true is not n=1; an integer 0 may come as 0.0.
    return any(value == item and isinstance(value, bool) == isinstance(item, bool) for item in neutral.values)
