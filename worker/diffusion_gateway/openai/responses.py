"""What clients get: bodies of answers and of stream chunks, built from the worker's events."""

from dataclasses import dataclass
from typing import Any

from diffusion_worker.wire import FinishEvent

JsonObject = dict[str, Any]


@dataclass(frozen=True)
class AnswerHead:
    """What all chunks of one answer share."""

    id: str
    """Unique; without the prefix that tells chats from completions."""
    chat: bool
    created: int
    """Seconds since the epoch."""
    model: str
    """As the client called it."""
    revision: str
    seed: int

    def _base(self, kind: str) -> JsonObject:
        return {
            "id": f"{'chatcmpl' if self.chat else 'cmpl'}-{self.id}",
            "object": kind,
            "created": self.created,
            "model": self.model,
            "system_fingerprint": f"fp_{self.revision}_{self.seed}",
        }

    def whole(self, text: str, finish: FinishEvent) -> JsonObject:
        """The answer in one piece."""
        body = self._base("chat.completion" if self.chat else "text_completion")
        choice: JsonObject = {"index": 0, "finish_reason": finish.reason, "logprobs": None}
        if self.chat:
            choice["message"] = {"role": "assistant", "content": text, "refusal": None}
        else:
            choice["text"] = text
        return body | {"choices": [choice], "usage": usage(finish)}

    def chunk(self, text: str, *, finish_reason: str | None = None) -> JsonObject:
        """A piece of a streamed answer: text, or the reason why there is no more."""
        delta: JsonObject = {"content": text} if text or finish_reason is None else {}
        return self._chunk({"delta": delta} if self.chat else {"text": text}, finish_reason=finish_reason)

    def role_chunk(self) -> JsonObject:
        """The first chunk of a streamed chat."""
        return self._chunk({"delta": {"role": "assistant", "content": "", "refusal": None}}, finish_reason=None)

    def usage_chunk(self, finish: FinishEvent) -> JsonObject:
        """The last chunk, if `stream_options.include_usage` asked for it."""
        return self._base(self._chunk_kind()) | {"choices": [], "usage": usage(finish)}

    def _chunk(self, content: JsonObject, *, finish_reason: str | None) -> JsonObject:
        choice = {"index": 0, **content, "finish_reason": finish_reason, "logprobs": None}
        return self._base(self._chunk_kind()) | {"choices": [choice]}

    def _chunk_kind(self) -> str:
        return "chat.completion.chunk" if self.chat else "text_completion"


def usage(finish: FinishEvent) -> JsonObject:
    """Tokens as the worker counted them."""
    return {
        "prompt_tokens": finish.prompt_tokens,
        "completion_tokens": finish.completion_tokens,
        "total_tokens": finish.prompt_tokens + finish.completion_tokens,
    }


def model_card(name: str, *, created: int) -> JsonObject:
    """One entry of /v1/models."""
    return {"id": name, "object": "model", "created": created, "owned_by": "diffusion-operator"}


def model_list(cards: list[JsonObject]) -> JsonObject:
    """Body of /v1/models."""
    return {"object": "list", "data": cards}
