"""The checkpoint's tokenizer, as far as an engine needs it."""

import threading
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import jinja2
from transformers import AutoTokenizer

from diffusion_worker.models.errors import NoChatTemplateError, TemplateError, TokenizerError
from diffusion_worker.wire import Message


class Tokenizer:
    """Text to token ids and back. Thread-safe; a long text that is encoded holds no answer up that is decoded."""

    def __init__(self, tokenizer: Any) -> None:
        self._tokenizer = tokenizer
        # Fast tokenizers refuse to be changed by one thread while another uses them. Only the first text that is encoded
        # changes them: it takes truncation and padding out.
        self._encoding, self._decoding = threading.Lock(), threading.Lock()
        self.encode("")

    def encode(self, text: str) -> list[int]:
        """Token ids of a prompt, with the special tokens that the checkpoint puts in front."""
        with self._encoding:
            return list(self._tokenizer(text)["input_ids"])

    def encode_continuation(self, text: str) -> list[int]:
        """Token ids of text that goes on from other tokens: without special ones."""
        with self._encoding:
            return list(self._tokenizer(text, add_special_tokens=False)["input_ids"])

    def encode_chat(self, messages: Sequence[Message]) -> list[int]:
        """Token ids of chat turns, up to where the assistant's answer begins.

        Raises NoChatTemplateError when the checkpoint has no template, TemplateError when it refuses the turns.
        """
        if not self._tokenizer.chat_template:
            raise NoChatTemplateError("this model has no chat template; send a prompt to the completions endpoint")
        turns = [message.model_dump() for message in messages]
        try:
            with self._encoding:
                ids = self._tokenizer.apply_chat_template(turns, add_generation_prompt=True, return_dict=False)
        except jinja2.TemplateError as error:
            raise TemplateError(f"this model's chat template refuses the messages: {error}") from error
        return list(ids)

    def decode(self, token_ids: Sequence[int]) -> str:
        """Text of tokens, without special ones; an unfinished character shows as U+FFFD."""
        with self._decoding:
            return str(
                self._tokenizer.decode(list(token_ids), skip_special_tokens=True, clean_up_tokenization_spaces=False)
            )

    def piece(self, token_id: int) -> str:
        """The token as the vocabulary spells it, which need not be its text; empty when there is no such token."""
        with self._decoding:
            return self._tokenizer.convert_ids_to_tokens(token_id) or ""


def load_tokenizer(folder: Path, tokenizer_class: Any = AutoTokenizer) -> Tokenizer:
    """Tokenizer of a checkpoint folder; TokenizerError when there is none.

    `tokenizer_class` of transformers is for checkpoints that name one of their own, which would be remote code.
    """
    files = ("tokenizer.json", "tokenizer.model", "tokenizer_config.json")
    if not any((folder / name).is_file() for name in files):
        raise TokenizerError(f"{folder} has no tokenizer.json; save the tokenizer beside the weights")
    try:
        return Tokenizer(tokenizer_class.from_pretrained(folder, local_files_only=True, trust_remote_code=False))
    except Exception as error:  # the tokenizers library raises bare ones
        raise TokenizerError(f"the tokenizer in {folder} cannot be loaded: {error}") from error
