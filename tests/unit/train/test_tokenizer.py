"""The tokenizer and its chat template, trained here on a few hundred documents."""

import pytest
from transformers import PreTrainedTokenizerFast

from examples.train.documents import documents
from examples.train.prepare import pack
from examples.train.tokenizer import BOS, COMMON_WORD, EOS, PAD, VOCABULARY_LIMIT, train_tokenizer


@pytest.fixture(scope="module")
def tokenizer() -> PreTrainedTokenizerFast:
    """A tokenizer of the real size."""
    return train_tokenizer(d.text for d in documents(400, seed=1) if d.text)


@pytest.mark.parametrize("text", ["Once upon a time", " two  spaces\n\nand lines ", "Zoë 🦊 <b> {x}", ""])
def test_any_text_survives_encoding_and_decoding(tokenizer: PreTrainedTokenizerFast, text: str) -> None:
    assert tokenizer.decode(tokenizer(text)["input_ids"], skip_special_tokens=True) == text


def test_a_plain_prompt_begins_with_bos_and_has_no_end(tokenizer: PreTrainedTokenizerFast) -> None:
    ids = tokenizer("Once upon a time")["input_ids"]
    assert ids[0] == BOS
    assert EOS not in ids


def test_the_vocabulary_keeps_to_its_limit_and_its_ids(tokenizer: PreTrainedTokenizerFast) -> None:
    assert len(tokenizer) <= VOCABULARY_LIMIT
    assert (tokenizer.pad_token_id, tokenizer.eos_token_id, tokenizer.bos_token_id) == (PAD, EOS, BOS)


def test_a_chat_prompt_ends_where_the_answer_begins(tokenizer: PreTrainedTokenizerFast) -> None:
    text = tokenizer.apply_chat_template(
        [{"role": "user", "content": "Hi"}], tokenize=False, add_generation_prompt=True
    )
    assert text == "<bos><start_of_turn>user\nHi<end_of_turn>\n<start_of_turn>assistant\n"


def test_a_chat_prompt_has_one_bos(tokenizer: PreTrainedTokenizerFast) -> None:
    ids = tokenizer.apply_chat_template([{"role": "user", "content": "Hi"}], add_generation_prompt=True)["input_ids"]
    assert ids.count(BOS) == 1


def test_a_system_message_stands_before_the_first_user_turn(tokenizer: PreTrainedTokenizerFast) -> None:
    messages = [{"role": "system", "content": "Be kind."}, {"role": "user", "content": "Hi"}]
    text = tokenizer.apply_chat_template(messages, tokenize=False)
    assert text == "<bos><start_of_turn>user\nBe kind.\n\nHi<end_of_turn>\n"


def test_text_parts_are_read_as_text(tokenizer: PreTrainedTokenizerFast) -> None:
    parts = [{"role": "user", "content": [{"type": "text", "text": "Hi"}]}]
    plain = [{"role": "user", "content": "Hi"}]
    assert tokenizer.apply_chat_template(parts, tokenize=False) == tokenizer.apply_chat_template(plain, tokenize=False)


def test_an_unknown_role_is_refused_by_name(tokenizer: PreTrainedTokenizerFast) -> None:
    with pytest.raises(Exception, match="unknown role tool"):
        tokenizer.apply_chat_template([{"role": "tool", "content": "x"}], tokenize=False)


def test_packed_documents_begin_with_bos_and_end_with_the_end_of_turn(tokenizer: PreTrainedTokenizerFast) -> None:
    corpus = pack(tokenizer, list(documents(50, seed=2)))
    assert (corpus.tokens[corpus.starts] == BOS).all()
    assert (corpus.tokens[corpus.starts[1:] - 1] == EOS).all()
    assert corpus.tokens[-1] == EOS


def test_the_answers_of_a_corpus_begin_behind_the_assistant_line(tokenizer: PreTrainedTokenizerFast) -> None:
    chosen = [document for document in documents(50, seed=2) if document.turns]
    corpus = pack(tokenizer, chosen)
    told = [turn.text for document in chosen for turn in document.turns if turn.role == "assistant"]
    assert len(told) > len(chosen)
    for answer, text in zip(corpus.answers, told, strict=True):
        assert tokenizer.decode(corpus.tokens[answer : answer + 400].tolist()).startswith(text)


def test_a_common_word_is_one_token(tokenizer: PreTrainedTokenizerFast) -> None:
    assert len(tokenizer(" there lived whose name", add_special_tokens=False)["input_ids"]) == 4


def test_too_many_common_words_are_refused_with_their_number() -> None:
    many = " ".join(
        f"w{chr(97 + a)}{chr(97 + b)}{chr(97 + c)}" for a in range(13) for b in range(13) for c in range(13)
    )
    with pytest.raises(ValueError, match="common words leave"):
        train_tokenizer([many] * COMMON_WORD)
