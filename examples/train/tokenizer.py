# ruff: noqa: S106  (the tokens in question are no passwords)
"""A byte-level BPE tokenizer that knows the words of the stories, with the special tokens and the chat template of the checkpoints."""

import json
from collections import Counter
from collections.abc import Iterable

from tokenizers import Tokenizer, decoders, models, pre_tokenizers, processors, trainers
from transformers import PreTrainedTokenizerFast

VOCABULARY_LIMIT = 2048
COMMON_WORD = 5
PAD, EOS, BOS, UNK, IMAGE, IMAGE_BEGIN, IMAGE_END = range(7)
# One token ends a turn, a document and the generation: every serving stack then stops in the same place.
SPECIAL_TOKENS = ["<pad>", "<end_of_turn>", "<bos>", "<unk>", "<image_soft_token>", "<boi>", "<eoi>", "<|video|>", "<start_of_turn>"]  # fmt: skip

# A system message is put in front of the first user turn, as Gemma does.
CHAT_TEMPLATE = """\
{{ bos_token }}
{%- set ns = namespace(system='') -%}
{%- for message in messages -%}
{%- if message.content is string -%}{%- set text = message.content | trim -%}
{%- else -%}{%- set text = message.content | selectattr('type', 'equalto', 'text') | map(attribute='text') | join(' ') | trim -%}{%- endif -%}
{%- if message.role == 'system' or message.role == 'developer' -%}{%- set ns.system = text + '\n\n' -%}
{%- elif message.role == 'user' or message.role == 'assistant' -%}
{{- '<start_of_turn>' + message.role + '\n' + (ns.system if message.role == 'user' else '') + text + '<end_of_turn>\n' -}}
{%- if message.role == 'user' -%}{%- set ns.system = '' -%}{%- endif -%}
{%- else -%}{{- raise_exception('unknown role ' + message.role + ': use system, user or assistant') -}}{%- endif -%}
{%- endfor -%}
{%- if add_generation_prompt -%}{{- '<start_of_turn>assistant\n' -}}{%- endif -%}
"""
ANSWER_PREFIX = "<start_of_turn>assistant\n"


def train_tokenizer(texts: Iterable[str]) -> PreTrainedTokenizerFast:
    """Learn a vocabulary from `texts`: every word that occurs `COMMON_WORD` times, and merges for all others.

    At most `VOCABULARY_LIMIT` entries; ValueError when the words alone would be more.
    """
    texts = list(texts)
    split = pre_tokenizers.ByteLevel(add_prefix_space=False)
    counts = Counter(word for text in texts for word, _ in split.pre_tokenize_str(text))
    words = [word for word, count in counts.most_common() if count >= COMMON_WORD and len(word) > 1]
    room = VOCABULARY_LIMIT - len(words)
    if room < len(SPECIAL_TOKENS) + len(split.alphabet()):
        raise ValueError(
            f"{len(words)} common words leave {room} of {VOCABULARY_LIMIT} entries: too few for single bytes"
        )
    learned = Tokenizer(models.BPE())
    learned.pre_tokenizer = split
    learned.train_from_iterator(
        texts,
        trainers.BpeTrainer(
            vocab_size=room, special_tokens=SPECIAL_TOKENS, initial_alphabet=split.alphabet(), show_progress=False
        ),
    )
    content = json.loads(learned.to_str())["model"]
    vocabulary: dict[str, int] = content["vocab"]
    for word in words:
        vocabulary.setdefault(word, len(vocabulary))
    # A word of the vocabulary is one token, however many merges would lead to it.
    merges = [tuple(merge) for merge in content["merges"]]
    tokenizer = Tokenizer(models.BPE(vocab=vocabulary, merges=merges, ignore_merges=True))
    tokenizer.add_special_tokens(SPECIAL_TOKENS)
    tokenizer.pre_tokenizer = split
    tokenizer.decoder = decoders.ByteLevel()
    # Plain prompts get <bos> from here; conversations get theirs from the template, which is encoded without this.
    tokenizer.post_processor = processors.TemplateProcessing(
        single="<bos> $A", pair="<bos> $A $B", special_tokens=[("<bos>", BOS)]
    )
    return PreTrainedTokenizerFast(
        tokenizer_object=tokenizer,
        pad_token="<pad>",
        eos_token="<end_of_turn>",
        bos_token="<bos>",
        unk_token="<unk>",
        additional_special_tokens=["<start_of_turn>"],
        chat_template=CHAT_TEMPLATE,
        model_max_length=4096,
        clean_up_tokenization_spaces=False,
    )
