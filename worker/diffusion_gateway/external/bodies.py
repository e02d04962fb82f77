"""Our request in the words of OpenAI's API: pure."""

from dataclasses import dataclass
from typing import Any

from diffusion_worker.wire import GenerateRequest

JsonObject = dict[str, Any]

CHAT = "chat/completions"
COMPLETION = "completions"


@dataclass(frozen=True)
class Call:
    """What is posted where."""

    path: str
    """Below the endpoint's URL."""
    body: JsonObject


def call_of(request: GenerateRequest, *, model: str) -> Call:
    """A request for one choice, streamed.

    What our API has a default for is always sent: servers have defaults of their own, some of them the checkpoint's.
    """
    body: JsonObject = {
        "model": model,
        "stream": True,
        "stream_options": {"include_usage": True},
        # null, and not absent: some servers take only the latter for 16 tokens.
        "max_tokens": request.max_tokens,
        "temperature": request.temperature,
        "top_p": request.top_p,
    }
    if request.seed is not None:
        body["seed"] = request.seed
    if request.stop:
        body["stop"] = request.stop
    for name in ("presence_penalty", "frequency_penalty"):
        if value := getattr(request, name):
            body[name] = value
    if request.logit_bias:
        body["logit_bias"] = {str(token): bias for token, bias in request.logit_bias.items()}
    if request.messages is not None:
        if request.logprobs is not None:
            body |= {"logprobs": True, "top_logprobs": request.logprobs}
        return Call(CHAT, body | {"messages": [message.model_dump() for message in request.messages]})
    if request.logprobs is not None:
        body["logprobs"] = request.logprobs
    prompt = request.prompt if request.prompt is not None else request.prompt_token_ids
    return Call(COMPLETION, body | {"prompt": prompt})
