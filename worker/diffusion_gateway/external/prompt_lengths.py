"""How many tokens a prompt has for an AR server, remembered from its answers: two scores after the same prompt follow each of them."""

import hashlib
from collections import OrderedDict

from diffusion_worker.wire import GenerateRequest, ScoreRequest

_REMEMBERED = 256


class PromptLengths:
    """Of the last prompts, by digest: no text is kept."""

    def __init__(self) -> None:
        self._tokens: OrderedDict[bytes, int] = OrderedDict()
        self.longest: int | None = None
        """Prompt and output together, as the server lists it (`max_model_len`). None: it does not."""

    def learn(self, request: GenerateRequest, tokens: int) -> None:
        """The server said it. 0: it did not."""
        if tokens > 0:
            self._tokens[_digest(request)] = tokens
            while len(self._tokens) > _REMEMBERED:
                self._tokens.popitem(last=False)

    def of(self, request: GenerateRequest | ScoreRequest) -> int | None:
        """None: not known."""
        return self._tokens.get(_digest(request))


def _digest(request: GenerateRequest | ScoreRequest) -> bytes:
    prompt = request.model_dump_json(include={"prompt", "prompt_token_ids", "messages"})
    return hashlib.sha256(prompt.encode()).digest()
