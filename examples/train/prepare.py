"""Stories → tokenizer and token arrays."""

from dataclasses import dataclass
from pathlib import Path

import numpy as np
from transformers import AutoTokenizer, PreTrainedTokenizerFast

from examples.train.documents import Document, documents
from examples.train.tokenizer import ANSWER_PREFIX, SPECIAL_TOKENS, train_tokenizer

TOKENIZER_DOCUMENTS = 6000


@dataclass(frozen=True)
class Corpus:
    """Documents one after the other.

    `tokens` [N] uint16; `starts` [D] where each document begins; `answers` [D] how many tokens into it the first
    answer begins (0 for a plain story).
    """

    tokens: np.ndarray
    starts: np.ndarray
    answers: np.ndarray

    def save(self, path: Path) -> None:
        """Write one `.npz` file."""
        np.savez(path, tokens=self.tokens, starts=self.starts, answers=self.answers)

    @classmethod
    def load(cls, path: Path) -> "Corpus":
        """Read what `save` wrote."""
        with np.load(path) as arrays:
            return cls(arrays["tokens"], arrays["starts"], arrays["answers"])


def prepare(folder: Path, *, count: int, seed: int) -> None:
    """Make `count` documents and write `tokenizer/`, `train.npz` and `held_out.npz` into `folder`."""
    made = list(documents(count, seed=seed))
    training = [document for document in made if not document.held_out]
    plain = [d.text or "\n".join(turn.text for turn in d.turns) for d in training[:TOKENIZER_DOCUMENTS]]
    tokenizer = train_tokenizer(plain)
    folder.mkdir(parents=True, exist_ok=True)
    tokenizer.save_pretrained(folder / "tokenizer")
    for name, chosen in (("train", training), ("held_out", [d for d in made if d.held_out])):
        corpus = pack(tokenizer, chosen)
        corpus.save(folder / f"{name}.npz")
        print(f"{name}: {len(chosen)} documents, {len(corpus.tokens)} tokens, longest {np.diff(corpus.starts).max()}")
    print(f"vocabulary: {len(tokenizer)} entries")


def load_tokenizer(folder: Path) -> PreTrainedTokenizerFast:
    """The tokenizer that `prepare` wrote."""
    return AutoTokenizer.from_pretrained(folder / "tokenizer")


def render(tokenizer: PreTrainedTokenizerFast, document: Document) -> str:
    """The document with its special tokens, from <bos> to the last <end_of_turn>."""
    if not document.turns:
        return f"{tokenizer.bos_token}{document.text}{tokenizer.eos_token}"
    messages = [{"role": turn.role, "content": turn.text} for turn in document.turns]
    return tokenizer.apply_chat_template(messages, tokenize=False).rstrip()


def pack(tokenizer: PreTrainedTokenizerFast, chosen: list[Document]) -> Corpus:
    """Encode the documents and lay them end to end."""
    encoded = tokenizer.backend_tokenizer.encode_batch([render(tokenizer, d) for d in chosen], add_special_tokens=False)
    prefix = tokenizer.backend_tokenizer.encode(ANSWER_PREFIX, add_special_tokens=False).ids
    rows = [encoding.ids for encoding in encoded]
    starts = np.cumsum([0] + [len(row) for row in rows[:-1]])
    answers = np.array([_end_of(prefix, row) if d.turns else 0 for d, row in zip(chosen, rows, strict=True)])
    return Corpus(np.concatenate(rows).astype(np.uint16), starts, answers)


def _end_of(needle: list[int], row: list[int]) -> int:
    """Index just behind the first occurrence of `needle`, which begins with <start_of_turn>."""
    turn = SPECIAL_TOKENS.index("<start_of_turn>")
    for i, token in enumerate(row):
        if token == turn and row[i : i + len(needle)] == needle:
            return i + len(needle)
    raise ValueError(f"no answer in a conversation of {len(row)} tokens: does the chat template write {needle}?")
