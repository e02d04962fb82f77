"""The bytes that one token stands for: log-probabilities are reported token by token, and a token may be half a character."""

import re

from diffusion_worker.models.tokenizer import Tokenizer

_REPLACEMENT = "\ufffd"
_BYTE_PIECE = re.compile(r"<0x([0-9A-Fa-f]{2})>")  # SentencePiece's spelling of a byte


class TokenBytes:
    """UTF-8 of single tokens, remembered. Not thread-safe."""

    def __init__(self, tokenizer: Tokenizer) -> None:
        self._tokenizer = tokenizer
        self._known: dict[int, bytes] = {}

    def of(self, token_id: int) -> bytes:
        """Its bytes; of a special token, those of its name."""
        if token_id not in self._known:
            self._known[token_id] = self._bytes(token_id)
        return self._known[token_id]

    def _bytes(self, token_id: int) -> bytes:
        # As the second of two: some tokenizers drop the space of a text's first token.
        once, twice = (self._tokenizer.decode([token_id] * n) for n in (1, 2))
        if twice and _REPLACEMENT not in twice:
            return twice[len(once) :].encode()
        piece = self._tokenizer.piece(token_id)
        if not twice:
            return piece.encode()
        if match := _BYTE_PIECE.fullmatch(piece):
            return bytes.fromhex(match[1])
        if all(character in _BYTE_OF for character in piece):
            return bytes(_BYTE_OF[character] for character in piece)
        return piece.encode()


def _byte_of_character() -> dict[str, int]:
    """Byte-level BPE's alphabet (GPT-2): printable Latin-1 stands for itself, the other bytes for U+0100 and on."""
    printable = [*range(0x21, 0x7F), *range(0xA1, 0xAD), *range(0xAE, 0x100)]
    others = [byte for byte in range(0x100) if byte not in printable]
    return {chr(byte): byte for byte in printable} | {chr(0x100 + i): byte for i, byte in enumerate(others)}


_BYTE_OF = _byte_of_character()
