"""Tokens to text, piece by piece."""

from collections.abc import Sequence

from diffusion_worker.models.tokenizer import Tokenizer

_REPLACEMENT = "\ufffd"  # stands for the bytes of a character that is not complete yet
_MOST_HELD = 1024  # of these in a row: more than a canvas has, so that no later token will make a character of them


class Detokenizer:
    """Text of a growing token sequence. The pieces put together equal the text of the whole sequence.

    Only a window of tokens is decoded again each time: it begins one piece back, because some tokenizers write a
    token differently at the very beginning of a text (SentencePiece drops its space there). It stays short whatever a
    model writes: tokens without text leave it at once, and bytes that are no text after a while.
    """

    def __init__(self, tokenizer: Tokenizer) -> None:
        self._tokenizer = tokenizer
        self._window: list[int] = []
        self._context = 0  # tokens at the window's head whose text is out already
        self._emitted = 0  # characters of the window's text that are out

    def push(self, token_ids: Sequence[int]) -> str:
        """The characters that `token_ids` complete; the bytes of half a character are held back."""
        self._window.extend(token_ids)
        text = self._tokenizer.decode(self._window)
        complete = text.rstrip(_REPLACEMENT)
        if len(text) - len(complete) > _MOST_HELD:
            complete = text
        piece = complete[self._emitted :]
        self._emitted = max(self._emitted, len(complete))
        if complete == text and piece:
            self._window = self._window[self._context :]
            self._context = len(self._window)
            self._emitted = len(self._tokenizer.decode(self._window))
        elif complete == text:
            del self._window[self._context :]
        return piece

    def preview(self, token_ids: Sequence[int]) -> str:
        """What `push` would return, and without an unfinished character at the end. Nothing is taken in."""
        return self._tokenizer.decode([*self._window, *token_ids]).rstrip(_REPLACEMENT)[self._emitted :]

    def flush(self) -> str:
        """What is left at the end: the replacement character for bytes that never became one."""
        return self._tokenizer.decode(self._window)[self._emitted :]
