"""Stories → tokenizer and token arrays."""

from dataclasses import dataclass
from pathlib import Path

import numpy as np
from transformers import AutoTokenizer, PreTrainedTokenizerFast

from examples.train.documents import ASSISTANT, Document, documents
from examples.train.tokenizer import ANSWER_PREFIX, train_tokenizer

TOKENIZER_DOCUMENTS = 6000


@dataclass(frozen=True)
class Corpus:
    """Documents one after the other.

    `tokens` [N] uint16; `starts` [D] where each document begins; `answers` [A] where each answer of a conversation
    begins.
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
    tokenizer = train_tokenizer(
        text
        for d in training[:TOKENIZER_DOCUMENTS]
        for text in (d.text, *(part for t in d.turns for part in (t.role, t.text)))
    )
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
    tokens = np.concatenate(rows).astype(np.uint16)
    answers = np.flatnonzero((np.lib.stride_tricks.sliding_window_view(tokens, len(prefix)) == prefix).all(1))
    told = sum(turn.role == ASSISTANT for document in chosen for turn in document.turns)
    if len(answers) != told:
        raise ValueError(f"{told} answers, but {len(answers)} times {prefix}: does the chat template write that?")
    return Corpus(tokens, starts, answers + len(prefix))
