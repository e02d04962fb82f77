"""How likely an AR server finds a text after a prompt, by the log-probabilities that it gives for prompts.

After a plain prompt by `echo` of completions, as in OpenAI's first API; after a chat by `prompt_logprobs`, as vLLM has it: the template of
the chat is the server's, so the text goes in as an answer that is to be continued. Tokens are counted by the server: those of
the completion are what the whole has beyond the prompt alone.
"""

from collections.abc import Mapping
from typing import Any, Literal

import aiohttp
from diffusion_worker.wire import Message, ScoreEvent, ScoreRequest
from pydantic import BaseModel, ConfigDict, ValidationError

from ..openai.errors import ApiError
from ..reasons import Reason, WorkerError
from .bodies import CHAT, COMPLETION, JsonObject
from .failures import failed
from .http import Http

Prompts = Literal["chats", "completions"]
_LARGEST_BODY_BYTES = 64 * 2**20
# Servers that have no such API, or do not know what they are asked for.
_UNKNOWN_TO_SERVER = frozenset({404, 405, 501})
_ONE_TOKEN = {"max_tokens": 1, "temperature": 0.0, "stream": False}

_PROBE = " once upon a time there was a river."
_PROBES: Mapping[Prompts, ScoreRequest] = {
    "chats": ScoreRequest(
        request_id="probe", messages=[Message(role="user", content="Tell me a story.")], completion=_PROBE
    ),
    "completions": ScoreRequest(request_id="probe", prompt="This is a story:", completion=_PROBE),
}


class CannotScoreError(WorkerError):
    """The server has no log-probabilities of such prompts."""

    def __init__(self, message: str) -> None:
        super().__init__(Reason.ENGINE_ERROR, message)


class _Part(BaseModel):
    model_config = ConfigDict(extra="ignore", frozen=True)


class _Usage(_Part):
    prompt_tokens: int


class _Logprobs(_Part):
    token_logprobs: list[float | None] | None = None


class _Choice(_Part):
    logprobs: _Logprobs | None = None


class _Token(_Part):
    logprob: float


class _Scored(_Part):
    usage: _Usage
    choices: list[_Choice] = []
    prompt_logprobs: list[dict[str, _Token] | None] | None = None


async def score(http: Http, request: ScoreRequest, *, headers: Mapping[str, str]) -> ScoreEvent:
    """How likely the server finds a text after a prompt.

    Raises:
        WorkerError: the server failed, or cannot score (`CannotScoreError`).
        ApiError: the request is at fault.
    """
    text = request.completion
    if text is None or request.prompt_token_ids is not None or request.include_eos:
        raise ApiError(400, "This server scores texts after texts, without their ends.", code="unsupported_value")
    path: str
    prompt: JsonObject
    whole: JsonObject
    if request.messages is not None:
        messages = [message.model_dump() for message in request.messages]
        path, prompt = CHAT, {"messages": messages}
        whole = {
            "messages": [*messages, {"role": "assistant", "content": text}],
            "add_generation_prompt": False,
            "continue_final_message": True,
            "prompt_logprobs": 0,
        }
    else:
        path, prompt = COMPLETION, {"prompt": request.prompt}
        whole = {"prompt": f"{request.prompt}{text}", "echo": True, "logprobs": 1}
    scored = await _ask(http, path, whole, headers=headers)
    logprobs = _of_prompt(scored)
    before = http.prompt_lengths.of(request)
    if before is None:
        before = (await _ask(http, path, prompt, headers=headers)).usage.prompt_tokens
    own = logprobs[before:]
    if not own:
        raise ApiError(400, "The text has no tokens of its own.", code="invalid_value")
    nll = -sum(value for value in own if value is not None)
    if None in own:
        raise CannotScoreError("the server gives no log-probability of some tokens")
    return ScoreEvent(nll=nll, tokens=len(own), text_bytes=len(text.encode()), prompt_tokens=before)


async def prompt_tokens(http: Http, prompt: str | list[int], *, headers: Mapping[str, str]) -> int:
    """How many tokens a prompt has that is no chat. Raises as `score` does."""
    return (await _ask(http, COMPLETION, {"prompt": prompt}, headers=headers)).usage.prompt_tokens


async def scored_prompts(http: Http) -> list[Prompts]:
    """After which prompts the server can score, found out with a few tokens. Raises `WorkerError` when it cannot be told now."""
    able: list[Prompts] = []
    for prompts, probe in _PROBES.items():
        try:
            await score(http, probe, headers={})
        except (CannotScoreError, ApiError):
            continue
        able.append(prompts)
    return able


def _of_prompt(scored: _Scored) -> list[float | None]:
    """Natural logarithms, one for each token of the prompt; the first has none."""
    if scored.prompt_logprobs is not None:
        return [next((each.logprob for each in (token or {}).values()), None) for token in scored.prompt_logprobs]
    logprobs = scored.choices[0].logprobs if scored.choices else None
    values = (logprobs and logprobs.token_logprobs) or []
    if len(values) < scored.usage.prompt_tokens:
        raise CannotScoreError("the server gives no log-probabilities of prompts")
    return values[: scored.usage.prompt_tokens]


async def _ask(http: Http, path: str, body: Mapping[str, Any], *, headers: Mapping[str, str]) -> _Scored:
    async with http.post(path, {"model": http.model, **_ONE_TOKEN, **body}, headers=headers) as response:
        data = await _body_of(response)
        http.note_status(response.status)
        if response.status in _UNKNOWN_TO_SERVER:
            raise CannotScoreError(f"the server answered {response.status}")
        if response.status != 200:
            problem = failed(response.status, data)
            if isinstance(problem, WorkerError):
                raise problem
            raise ApiError(400, problem.message, code=problem.code, param=problem.param)
    try:
        return _Scored.model_validate_json(data)
    except ValidationError:
        raise CannotScoreError("the server's answer has no counts or log-probabilities") from None


async def _body_of(response: aiohttp.ClientResponse) -> bytes:
    data = bytearray()
    async for piece in response.content.iter_any():
        data += piece
        if len(data) > _LARGEST_BODY_BYTES:
            raise WorkerError(Reason.ENGINE_ERROR, f"the server's answer has more than {_LARGEST_BODY_BYTES} bytes")
    return bytes(data)
