"""Two texts of the same length: later tokens are likelier, so a longer text has the better mean for its length alone."""


def cut_alike(one: str, other: str) -> tuple[str, str]:
    """Both, the longer one cut to the length of the shorter one, back to the end of a word where it has words.

    Lengths are in characters: tokens are the AR model's, and it may not be the tokenizer that wrote the text.
    """
    length = min(len(one), len(other))
    return _cut(one, length), _cut(other, length)


def _cut(text: str, length: int) -> str:
    if len(text) <= length or text[length].isspace():
        return text[:length]
    words = text[:length].rsplit(maxsplit=1)
    # One piece without a space is no word that could be left out: texts in scripts without spaces, or a text of one word.
    return text[:length] if len(words) < 2 else text[: text.index(words[0]) + len(words[0])]
