"""What clients get: bodies of answers and of stream chunks, built from the worker's events."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from diffusion_worker.wire import BlockEvent, DraftEvent, FinishEvent, TokenLikelihood

from .logprobs import CompletionLogprobs, chat_logprobs

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
    choices_per_prompt: int = 1

    def _base(self, kind: str) -> JsonObject:
        return {
            "id": f"{'chatcmpl' if self.chat else 'cmpl'}-{self.id}",
            "object": kind,
            "created": self.created,
            "model": self.model,
            "system_fingerprint": f"fp_{self.revision}_{self.seed}",
        }

    def whole(self, choices: "Sequence[ChoiceText]") -> JsonObject:
        """The answer in one piece."""
        body = self._base("chat.completion" if self.chat else "text_completion")
        return body | {
            "choices": [choice.whole(chat=self.chat) for choice in choices],
            "usage": self.usage([choice.finish for choice in choices if choice.finish is not None]),
        }

    def chunk(self, choice: "ChoiceText", event: BlockEvent) -> JsonObject:
        """A piece of a streamed answer."""
        content: JsonObject = {"delta": {"content": event.text}} if self.chat else {"text": event.text}
        return self._chunk(choice.index, content, logprobs=choice.logprobs_of(event, chat=self.chat))

    def draft_chunk(self, index: int, draft: DraftEvent) -> JsonObject:
        """A canvas in work: to clients that do not know of drafts a piece without text."""
        chunk = self._chunk(index, {"delta": {}} if self.chat else {"text": ""})
        # Beside the choices, because the clients' helpers put together what they find in them.
        return chunk | {"draft": {"choice": index, "block": draft.index, "step": draft.step, "text": draft.text}}

    def role_chunk(self, index: int) -> JsonObject:
        """The first chunk of a choice of a streamed chat."""
        return self._chunk(index, {"delta": {"role": "assistant", "content": "", "refusal": None}})

    def finish_chunk(self, index: int, finish: FinishEvent) -> JsonObject:
        """The last chunk of a choice: the reason why there is no more."""
        return self._chunk(index, {"delta": {}} if self.chat else {"text": ""}, finish_reason=finish.reason)

    def usage_chunk(self, finishes: Sequence[FinishEvent]) -> JsonObject:
        """The last chunk, if `stream_options.include_usage` asked for it."""
        return self._base(self._chunk_kind()) | {"choices": [], "usage": self.usage(finishes)}

    def usage(self, finishes: Sequence[FinishEvent]) -> JsonObject:
        """Tokens as the workers counted them; a prompt counts once, whatever the number of choices."""
        prompt_tokens = sum(finish.prompt_tokens for finish in finishes) // self.choices_per_prompt
        completion_tokens = sum(finish.completion_tokens for finish in finishes)
        return {
            "prompt_tokens": prompt_tokens,
            "completion_tokens": completion_tokens,
            "total_tokens": prompt_tokens + completion_tokens,
            # Not OpenAI's: with it the same request to the same revision gives the same answer.
            "seed": self.seed,
        }

    def _chunk(
        self, index: int, content: JsonObject, *, finish_reason: str | None = None, logprobs: JsonObject | None = None
    ) -> JsonObject:
        choice = {"index": index, **content, "finish_reason": finish_reason, "logprobs": logprobs}
        return self._base(self._chunk_kind()) | {"choices": [choice]}

    def _chunk_kind(self) -> str:
        return "chat.completion.chunk" if self.chat else "text_completion"


@dataclass
class ChoiceText:
    """One choice as it grows."""

    index: int
    text: str = ""
    tokens: list[TokenLikelihood] | None = None
    """None: no log-probabilities were asked for."""
    finish: FinishEvent | None = None
    _writer: CompletionLogprobs = field(default_factory=CompletionLogprobs)

    def add(self, event: BlockEvent) -> None:
        """Take a block in."""
        self.text += event.text
        if event.logprobs is not None:
            self.tokens = [*(self.tokens or ()), *event.logprobs]

    def logprobs_of(self, event: BlockEvent, *, chat: bool) -> JsonObject | None:
        """For a chunk with this block, which must be the next one."""
        if event.logprobs is None:
            return None
        return chat_logprobs(event.logprobs) if chat else self._writer.write(event.logprobs)

    def whole(self, *, chat: bool) -> JsonObject:
        """The choice in one piece."""
        logprobs = None
        if self.tokens is not None:
            logprobs = chat_logprobs(self.tokens) if chat else CompletionLogprobs().write(self.tokens)
        choice: JsonObject = {
            "index": self.index,
            "finish_reason": self.finish.reason if self.finish else None,
            "logprobs": logprobs,
        }
        if chat:
            return choice | {"message": {"role": "assistant", "content": self.text, "refusal": None}}
        return choice | {"text": self.text}


def model_card(
    name: str, *, created: int, max_model_len: int | None, revisions: Sequence[str], max_choices: int, max_prompts: int
) -> JsonObject:
    """One entry of /v1/models: OpenAI's fields, and the limits of this API beside them."""
    return {
        "id": name,
        "object": "model",
        "created": created,
        "owned_by": "diffusion-operator",
        # As vLLM calls it. null: the model's own.
        "max_model_len": max_model_len,
        "revisions": list(revisions),
        "max_choices": max_choices,
        "max_prompts": max_prompts,
    }


def model_list(cards: list[JsonObject]) -> JsonObject:
    """Body of /v1/models."""
    return {"object": "list", "data": cards}
