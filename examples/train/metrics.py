"""How good is a text? Measures on token ids and on words, without a model."""

import re
from collections.abc import Sequence
from itertools import pairwise

WINDOW = 32
COMMON = {"a", "an", "and", "named", "the", "who", "lives", "learning", "to", "that", "would", "not", "could"}


def repetition(tokens: Sequence[int]) -> float:
    """Share of tokens that lie in a 4-gram which already occurred within the last 32 tokens (0–1)."""
    repeated = [False] * len(tokens)
    for i in range(4, len(tokens) + 1):
        gram = tokens[i - 4 : i]
        if any(tokens[j - 4 : j] == gram for j in range(max(4, i - WINDOW), i)):
            repeated[i - 4 : i] = [True] * 4
    return sum(repeated) / max(1, len(tokens))


def distinct_pairs(tokens: Sequence[int]) -> float:
    """Different pairs of neighbours among all pairs of one text (0–1)."""
    pairs = list(pairwise(tokens))
    return len(set(pairs)) / max(1, len(pairs))


def answered(request: str, answer: str) -> float | None:
    """Share of the asked-for words ("… about a fox and a storm" → fox, storm) that the answer has; None if none were asked for."""
    _, about, topic = request.partition(" about ")
    wanted = set(re.findall(r"[a-z]+", topic.lower())) - COMMON - {"please"}
    if not about or not wanted:
        return None
    return len(wanted & set(re.findall(r"[a-z]+", answer.lower()))) / len(wanted)
