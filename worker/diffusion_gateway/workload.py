"""What kind of work a prompt is: code and maths need strict causality, so a model that writes whole blocks is worse at them.

A guess from signs (`workload_signs`), each with a weight: cheap enough for every request, plain enough to say afterwards why it was
made. It looks at the beginning and the end of a prompt only, where people say what they want. How often it is right is measured on
`tests/data/workloads.jsonl`, see `docs/routing.md`; what a client says (`workload`) always goes first.
"""

import re
from enum import StrEnum

from .workload_signs import CODE, MATH, PROSE, Sign


class Workload(StrEnum):
    """What a request is for."""

    CODE = "code"
    MATH = "math"
    GENERAL = "general"


_LOOKS_AT = 1000
"""Characters from each end."""
_ENOUGH = 1.0
_WORD = re.compile(r"[^\W_][\w#+]*")


def detect(text: str) -> Workload:
    """Guess what kind of work a prompt is. A long prompt takes no longer than one of a page or two."""
    seen = (text if len(text) <= 2 * _LOOKS_AT else f"{text[:_LOOKS_AT]}\n{text[-_LOOKS_AT:]}").lower()
    parts = frozenset(_WORD.findall(seen)) | frozenset(seen)
    prose = _weight(PROSE, seen, parts)
    code, math = _weight(CODE, seen, parts) - prose, _weight(MATH, seen, parts) - prose
    if max(code, math) < _ENOUGH:
        return Workload.GENERAL
    return Workload.CODE if code >= math else Workload.MATH


def _weight(signs: tuple[Sign, ...], text: str, parts: frozenset[str]) -> float:
    return sum(sign.weight for sign in signs if sign.is_in(text, parts))
