"""Log-probabilities of tokens, in the two forms that OpenAI's API has for them."""

import codecs
from collections.abc import Sequence
from typing import Any

from diffusion_worker.wire import Likelihood, TokenLikelihood

JsonObject = dict[str, Any]


def chat_logprobs(tokens: Sequence[TokenLikelihood]) -> JsonObject:
    """As in chats: a list with one object per token. Half a character shows as U+FFFD; `bytes` has what it is."""
    return {
        "content": [_object(token) | {"top_logprobs": [_object(each) for each in token.top]} for token in tokens],
        "refusal": None,
    }


def _object(token: Likelihood) -> JsonObject:
    return {
        "token": bytes(token.utf8).decode(errors="replace"),
        "logprob": token.logprob,
        "bytes": list(token.utf8),
    }


class CompletionLogprobs:
    """As in completions: parallel lists. `text_offset` counts characters, and goes on from one chunk to the next."""

    def __init__(self) -> None:
        self._decoder = codecs.getincrementaldecoder("utf-8")("replace")
        self._offset = 0

    def write(self, tokens: Sequence[TokenLikelihood]) -> JsonObject:
        """The lists for the next tokens. The token itself is always among those in its place."""
        offsets = []
        for token in tokens:
            offsets.append(self._offset)
            self._offset += len(self._decoder.decode(bytes(token.utf8)))
        return {
            "tokens": [_name(token) for token in tokens],
            "token_logprobs": [token.logprob for token in tokens],
            "top_logprobs": [{_name(each): each.logprob for each in (*token.top, token)} for token in tokens],
            "text_offset": offsets,
        }


def _name(token: Likelihood) -> str:
    """Its text, or `bytes:\\xe2\\x80` for half a character, which has none: names must differ."""
    utf8 = bytes(token.utf8)
    try:
        return utf8.decode()
    except UnicodeDecodeError:
        return "bytes:" + "".join(f"\\x{byte:02x}" for byte in utf8)
