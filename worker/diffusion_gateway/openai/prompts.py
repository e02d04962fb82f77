"""The parameters with many shapes: prompt, messages, stop. Each reader returns our one shape or raises `ApiError` naming the place."""

from typing import Any, Literal

from diffusion_worker.wire import Message

from .errors import invalid_parameter

Prompt = str | tuple[int, ...]
Role = Literal["system", "user", "assistant"]

MAX_PROMPTS = 32
_MAX_TOKEN_ID = 2**31 - 1
_MAX_STOP_STRINGS = 4
# "developer" is what newer clients call "system".
_ROLES: dict[str, Role] = {"system": "system", "developer": "system", "user": "user", "assistant": "assistant"}
# Clients send our own answers back as they got them, with these fields empty.
_EMPTY_IN_MESSAGES = frozenset({"refusal", "audio", "tool_calls", "function_call", "annotations", "reasoning_content"})


def read_prompts(value: Any) -> tuple[Prompt, ...]:
    """A string, token ids, or a list of up to `MAX_PROMPTS` such prompts."""
    match value:
        case str():
            return (value,)
        case [str() | list(), *_]:
            if len(value) > MAX_PROMPTS:
                raise invalid_parameter(
                    "prompt", f"prompt has {len(value)} prompts; at most {MAX_PROMPTS} are allowed in one request."
                )
            return tuple(_prompt(item, at=f"prompt[{index}]") for index, item in enumerate(value))
    return (_prompt(value, at="prompt"),)


def _prompt(value: Any, *, at: str) -> Prompt:
    match value:
        case str():
            return value
        case [_, *_] if all(_is_token_id(item) for item in value):
            return tuple(value)
    raise invalid_parameter(at, f"{at} must be a string or a non-empty list of token ids (integers from 0).")


def _is_token_id(value: Any) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and 0 <= value <= _MAX_TOKEN_ID


def read_stop(value: Any) -> tuple[str, ...]:
    """A string, up to four of them, or null."""
    strings = [value] if isinstance(value, str) else [] if value is None else value
    if not isinstance(strings, list) or not all(isinstance(item, str) and item for item in strings):
        raise invalid_parameter("stop", "stop must be a non-empty string or a list of non-empty strings.")
    if len(strings) > _MAX_STOP_STRINGS:
        raise invalid_parameter("stop", f"stop has {len(strings)} strings; at most {_MAX_STOP_STRINGS} are allowed.")
    return tuple(strings)


def read_messages(value: Any) -> tuple[Message, ...]:
    """The turns of a chat."""
    if not isinstance(value, list) or not value:
        raise invalid_parameter("messages", "messages must be a non-empty list.")
    return tuple(_message(item, at=f"messages[{index}]") for index, item in enumerate(value))


def _message(value: Any, *, at: str) -> Message:
    if not isinstance(value, dict):
        raise invalid_parameter(at, f"{at} must be an object with role and content.")
    role = value.get("role")
    if not isinstance(role, str) or role not in _ROLES:
        raise invalid_parameter(f"{at}.role", f"{at}.role is {role!r}; this model knows {', '.join(sorted(_ROLES))}.")
    for name in value.keys() - {"role", "content", "name"}:
        if name not in _EMPTY_IN_MESSAGES or value[name]:
            raise invalid_parameter(
                f"{at}.{name}",
                f"{at}.{name} is not supported by this model; leave it out.",
                code="unsupported_parameter",
            )
    return Message(role=_ROLES[role], content=_content(value.get("content"), at=f"{at}.content"))


def _content(value: Any, *, at: str) -> str:
    if isinstance(value, str):
        return value
    if not isinstance(value, list) or not value:
        raise invalid_parameter(at, f"{at} must be a string or a non-empty list of text parts.")
    return "".join(_part(part, at=f"{at}[{index}]") for index, part in enumerate(value))


def _part(value: Any, *, at: str) -> str:
    match value:
        case {"type": "text", "text": str() as text}:
            return text
        case {"type": str() as kind} if kind != "text":
            raise invalid_parameter(
                f"{at}.type",
                f"{at}.type is {kind!r}; this model reads text only: {{'type': 'text', 'text': ...}}.",
                code="unsupported_value",
            )
    raise invalid_parameter(at, f"{at} must be {{'type': 'text', 'text': <string>}}.")
