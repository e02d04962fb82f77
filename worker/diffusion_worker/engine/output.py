"""From committed tokens to the text of a block, and to the end of the row."""

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from typing import Literal

from diffusion_worker.engine.detokenizer import Detokenizer
from diffusion_worker.engine.stops import StopMatcher
from diffusion_worker.models.tokenizer import Tokenizer


@dataclass(frozen=True)
class BlockText:
    """What one block adds to the answer."""

    text: str
    tokens: int
    finish: Literal["stop", "length"] | None


class Output:
    """The answer of one row: cuts it at EOS, at `max_tokens` and at stop strings.

    EOS ends the answer and is neither text nor counted. A stop string is not text, but the tokens that spell it count.
    """

    def __init__(
        self, *, tokenizer: Tokenizer, eos_token_ids: Collection[int], max_tokens: int, stops: Sequence[str]
    ) -> None:
        self._eos_token_ids = eos_token_ids
        self._max_tokens = max_tokens
        self._detokenizer = Detokenizer(tokenizer)
        self._matcher = StopMatcher(stops) if stops else None
        self.token_ids: list[int] = []

    @property
    def tokens(self) -> int:
        """Of the answer so far."""
        return len(self.token_ids)

    def push(self, token_ids: Sequence[int]) -> BlockText:
        """Take the tokens of a block in; those after the end of the answer are dropped."""
        kept, finish = self._up_to_the_end(token_ids)
        text, used, stopped = self._text_of(kept)
        self.token_ids += kept[:used]
        if stopped:
            return BlockText(text, used, "stop")
        if finish is not None:
            rest, stopped = self._rest()
            return BlockText(text + rest, used, "stop" if stopped else finish)
        return BlockText(text, used, None)

    def preview(self, token_ids: Sequence[int]) -> str:
        """The text that a block of these tokens would add, as far as it can be told. Nothing is taken in."""
        kept, _ = self._up_to_the_end(token_ids)
        text = self._detokenizer.preview(kept)
        return text if self._matcher is None else self._matcher.preview(text)

    def _up_to_the_end(self, token_ids: Sequence[int]) -> tuple[list[int], Literal["stop", "length"] | None]:
        """The tokens that belong to the answer, and what ends it there."""
        kept: list[int] = []
        for token_id in token_ids:
            if token_id in self._eos_token_ids:
                return kept, "stop"
            kept.append(token_id)
            if self.tokens + len(kept) == self._max_tokens:
                return kept, "length"
        return kept, None

    def _text_of(self, token_ids: list[int]) -> tuple[str, int, bool]:
        """Text that may go out, how many tokens were used for it, and whether a stop string ended it."""
        if self._matcher is None:
            return self._detokenizer.push(token_ids), len(token_ids), False
        text = ""
        for used, token_id in enumerate(token_ids, start=1):  # one by one, to know which token completes a stop string
            piece, stopped = self._matcher.push(self._detokenizer.push([token_id]))
            text += piece
            if stopped:
                return text, used, True
        return text, len(token_ids), False

    def _rest(self) -> tuple[str, bool]:
        """What detokenizer and matcher still hold, at the end of the answer."""
        rest = self._detokenizer.flush()
        if self._matcher is None:
            return rest, False
        text, stopped = self._matcher.push(rest)
        return (text, True) if stopped else (text + self._matcher.flush(), False)
