"""What kind of work a prompt is: code and maths need strict causality, so a model that writes whole blocks is worse at them.

A guess from signs, each with a weight: cheap enough for every request, plain enough to say afterwards why it was made. It looks at
the beginning and the end of a prompt only, where people say what they want. How often it is right is measured on
`tests/data/workloads.jsonl`, see `docs/routing.md`; what a client says (`workload`) always goes first.
"""

import re
from enum import StrEnum


class Workload(StrEnum):
    """What a request is for."""

    CODE = "code"
    MATH = "math"
    GENERAL = "general"


_LOOKS_AT = 3000
"""Characters from each end."""
_ENOUGH = 1.0
_Sign = tuple[re.Pattern[str], float]


def _signs(*signs: tuple[str, float]) -> tuple[_Sign, ...]:
    return tuple((re.compile(pattern, re.MULTILINE), weight) for pattern, weight in signs)


def _any(*words: str) -> str:
    return rf"(?:{'|'.join(words)})"


# Names that are nothing else. The others need a word before them that makes them a language.
_LANGUAGE = _any(
    "javascript", "typescript", "golang", "kotlin", "haskell", r"c\+\+", r"c#", "fortran", "matlab", "powershell", "bash", "awk",
    "vba", "php", "perl", "sql", "html", "css", "python ?[23]", "pytest", "pandas", "numpy", "regex(?:es|p)?", "json schema",
    "react", "node(?:\\.?js)", "dockerfile", "makefile", "kubectl", "kubernetes", "terraform", "graphql", "github actions", "jest",
    "useeffect", "x86", "tampermonkey", "nginx",
)  # fmt: skip
_SHY_LANGUAGE = _any(
    "python", "java", "rust", "go", "ruby", "swift", "scala", "julia", "lua", "dart", "elixir", "perl", "r", "c", "assembly"
)  # fmt: skip
_PIECE = _any(
    "functions?", "scripts?", "programs?", "methods?", "class(?:es)?", "quer(?:y|ies)", "unit tests?", "code", "macro", "decorators?",
    "components?", "endpoints?", "algorithms?", "parser", "tokenizer", "compiler", "api", "linked list", "one-liner", "snippet",
    "cache", "binary search", "resolver", "operator", "rate limiter", "workflow", "queue", "trie", "bloom filter", "event bus",
    "state machine", "http client", "type hints", "docstrings", "cron expression", "pull request", "diff", "module",
)  # fmt: skip
_MAKE = _any(
    "writ(?:e|ing)", "set up", "implement", "refactor", "debug", "optimi[sz]e", "create", "build", "generate", "make", "give me", "need",
    "convert", "port", "translate", "complete", "finish", "fix", "review", "mock", "define", "add", "want", "show(?: me)?",
)  # fmt: skip

_CODE = _signs(
    # What it looks like.
    (r"^ *```[a-z+#]+ *$", 1.0),
    (r"^\s*(?:async )?(?:def|class) \w+[^\n]{0,80}:\s*$", 1.0),
    (r"\b(?:function|func|fn|fun) \w* ?\([^)\n]{0,80}\)", 1.0),
    (r"^\s*(?:#include\b|import \w+\s*$|from [\w.]+ import\b|using namespace|package \w+;?$)", 1.0),
    (r"\b(?:public|private|static) (?:static |final |class |void |int |double |string )+\w", 1.0),
    (r"^\s*(?:const|let|var|int|float|double|auto|string) (?:mut )?\w+(?:: ?\w+)? = ?\S", 0.7),
    (r"\b(?:const|let|var) \w+ = [\w(]", 0.6),
    (r"\bfor ?\(|\bwhile ?\(|\bif ?\([^)\n]{1,40}\) ?[{\w]|\bfor \w+(?:, ?\w+)? in [\w.]+\(", 0.7),
    (r"\b(?:select\b[^\n]{1,200}\bfrom\b[^\n]{1,200}\b(?:where|join|group by|order by|limit)|create table|insert into \w+ ?\()", 1.0),
    (r"[{;]\s*$[^\n]*\n[^\n]*[};]\s*$", 0.6),
    (r"\w\.\w+\([^)\n]{0,60}\)", 0.6),
    (r"\w\[['\"]\w+['\"]\]|\w\(['\"][^'\"\n]{0,40}['\"]\)", 0.5),
    (r"(?:=>|->|::|!=|===|&&|\|\||\+=)", 0.4),
    (r"`[^`\n]*[(){}=<>$][^`\n]*`", 0.6),
    (r"<(?:div|p|span|html|body|script)\b[^>\n]{0,80}>", 1.0),
    (r"^(?:from \S+:\S+|copy \S+ \S+|run \w+ \w+|cmd \[\S+)", 0.6),
    (r"\\d|\(\?[=:!]", 0.4),
    # What goes wrong.
    (r"traceback \(most recent|\b[a-z]+(?:error|exception): |\bnullpointerexception|segmentation fault|borrow checker", 1.0),
    (r"\berror: |\berr!|\bstack ?trace\b|\b\w+\.(?:py|cpp|js|ts|rs|go|java):\d+", 0.6),
    (r"\b(?:decorators?|unit tests?|linked list|one-liner|binary search|type hints|docstrings?|list of dicts|dicts?\b|tuples?|async|"
     r"csv|json|dataframe|stdin|stdout|localhost|pull request|\.tmp|endpoint|backoff|thread-safe)\b", 0.4),
    (r"\b(?:how (?:do|can|would|should) i|why (?:is|does|do|doesn't)|which commands?)\b", 0.2),
    (r"time complexity|mutex|semaphore|\btail recursive\b|\bmerge conflict|\brebase\b", 0.6),
    # What is asked.
    (rf"\b{_MAKE}\b[^.?!\n]{{0,50}}\b{_PIECE}\b", 0.6),
    (rf"\b{_LANGUAGE}(?![\w+#])", 0.8),
    (rf"\b(?:in|to|with|using|my|an?|this|mit|en|em|na|на|用|の) (?:einer? )?{_SHY_LANGUAGE}\b(?=[^\w+#]|$)", 0.5),
    (r"用 ?python|python ?で|代码|函数|コード|関数", 0.6),
    (rf"\b{_SHY_LANGUAGE}[- ](?:funktion|function|script|program|programm|snippet|code)\b", 0.6),
    (r"\b(?:funktion|skript|programm|beispielcode|fonction|requête|función|programa|funzione|função|skrypt|функци\w|программ[уы])\b", 0.6),
    (r"写一个[^\n]{0,20}函数|修复[^\n]{0,10}代码|コードを書", 0.6),
)  # fmt: skip

_NUMBER = r"\d[\d,.]*"
_MATH = _signs(
    # What it looks like.
    (r"\\(?:frac|int|sum|sqrt|lim|begin\{[pbv]?(?:matrix|equation|align)|cdot|infty)", 1.0),
    (r"[∫∑√∂∞≤≥]", 0.8),
    (rf"(?<![\w.]){_NUMBER} ?[a-z](?:\^\d+)? ?[-+] ?[\da-z][^\n.]{{0,30}}= ?-?\d", 1.0),
    (r"\b[a-z] ?\^ ?[\d({]|\b[a-z]²", 0.7),
    (r"\b[fg]\([xtn]\) ?=|\bd[yx]/d[xt]\b|\ba_\{?n", 0.9),
    (rf"(?<![\d:/-]){_NUMBER} ?(?:[*×÷^]|\*\*) ?\(?\d", 0.7),
    (rf"(?<![\d:/.-]){_NUMBER} (?:[-+/*×÷] \(?{_NUMBER} ?)+", 0.6),
    (rf"(?:= ?\?|what(?:'s| is)|calculate|compute|evaluate|сколько будет|wie viel ist) {{0,2}}\(?{_NUMBER} ?[-+*/×÷^]", 0.7),
    (rf"(?:what(?:'s| is)|calculate|find|¿?cuánto es(?: el)?|wie viel sind) {_NUMBER} ?(?:%|percent|prozent) (?:of|de|von)\b", 1.0),
    (r"[a-z\d)] ?= ?\d+\b[^\n]{0,40}\b(?:and|find|what is|,)", 0.4),
    # What is asked.
    (r"\b(?:integral|derivative|antiderivative|eigenvalues?|eigenvectors?|determinant|hypotenuse|polynomial|logarithm|taylor series|"
     r"lagrange|euclidean algorithm|greatest common divisor|gcd|lcm|induction|square root of \d|standard deviation|irrational|"
     r"prime(?:s| numbers?)?\b(?! minister)|integers?|cyclic|converges?|ableitung|dérivée|derivata|derivada|ecuación|équation|equação|"
     r"gleichung|уравнение|方程|积分|方程式)\b", 0.6),
    (r"\b(?:sum|product|difference|average|mean) of (?:the )?(?:first |two |all )?(?:\d|odd|even|integers|numbers)|\bsumme (?:zweier|der)\b", 0.6),
    (r"\)\^\d|\b(?:tan|sin|cos|log|ln|exp) ?\(?[xtn]\b|\[\d, ?\d\]", 0.6),
    (r"^\W*(?:(?:please|now|let|use|can you)\b[^.\n]{0,30} )?(?:solve|compute|calculate|differentiate|integrate|simplify|factor|expand|"
     r"prove|show that|find|determine|evaluate|invert|convert|berechne|löse|beweise|résous|calcule|démontre|resuelve|calcula|calcola|"
     r"oblicz|реши|解|求|convert|round)\b", 0.5),
    (r"\b(?:prove|show) that\b[^\n]{0,80}(?:\d|\bn\b|number|integer|even|odd|prime|irrational|cyclic|infinitely|attains)", 0.6),
    (r"\b(?:solve|löse|resuelve|résous) [^.\n]{0,30}\b(?:for [a-z]\b|equation|system|gleichung|ecuación|équation|dy/dx)", 0.6),
    (r"解方程|次の方程式|求 ?[^\n]{1,20}的积分|\bплощадь\b", 1.0),
    (r"\bhow many (?:different )?ways\b|\bin how many\b|\bprobability (?:that|of)\b|\bwahrscheinlichkeit\b", 0.5),
    (r"\b(?:area|volume|perimeter|circumference|sides|radius|slope|roots|remainder|variance|mean|median|limit|equation|interest) (?:of|when|does|and|from|,)", 0.5),
    (r"\bif [a-z_\d()+ ]{1,12} ?= ?-?\d", 0.6),
    (r"\bmatrix\b|\bdice\b|\bprime number\b|\bcompounded\b|\bcontinuous\b|\bright triangle\b|\bmarbles\b|\bwürfeln\b|\btrójkąta\b|\btriangle\b|\bfraction\b", 0.4),
    # A story with numbers that ends with a question for one.
    (rf"{_NUMBER}[^?]{{2,300}}\b(?:how (?:many|much|far|fast|old|long|large)|what (?:is|was|are) (?:the|her|his|its|their)|when do|"
     rf"wie (?:schnell|viele?|lange|weit|groß)|what's the)\b[^?.!]{{2,90}}\?\s*$", 0.6),
    (rf"{_NUMBER} ?(?:km/h|km|kilomet|m\b|metres|meters|cm|litres|liters|euros?|dollars|hours?|minutes|stunden|%|percent|books|sheep|students|apples|bokach)"
     rf"|[$€]{_NUMBER}", 0.25),
    (r"\b(?:times as|twice as|a third of|two thirds|half of|average speed|altogether|in total|are left|remain|change does|originally|"
     r"original price|ratio of|per day|each pay|together\?)", 0.5),
)  # fmt: skip

# Who asks for a text of this kind wants a text, whatever it is about.
_TEXT = _any(
    "stor(?:y|ies)", "tale", "poem", "haiku", "limerick", "song", "letters?", "e-?mail", "essay", "dialogue", "speech", "eulogy", "toast",
    "obituary", "novel", "thriller", "scene", "monologue", "biography", "blog post", "press release", "cover letter", "job description",
    "product description", "review of", "reply", "message", "invitation", "newsletter", "note", "play", "film script", "tragedy", "myth",
    "nicknames", "plot", "report", "radio ad", "plan", "itinerary", "welcome", "summary of", "title",
    "geschichte", "brief", "gedicht", "märchen", "histoire", "poème", "lettre", "cuento", "historia", "poema", "carta", "lettera",
    "redação", "сказку", "рассказ", "стих", "wiersz",
)  # fmt: skip
_PROSE = _signs(
    (rf"\b(?:write|tell|draft|compose|make up|invent|give|continue|plan|rewrite|translate|erzähle?|schreibe?|raconte|écris|escribe|scrivi|"
     rf"escreva|напиши|napisz)\b[^.?!\n]{{0,60}}\b{_TEXT}\b", 1.0),
    (r"^\W*(?:continue|go on|summari[sz]e|describe|imagine|recipe|dear\b|chapter \d|once\b|poem|tell me about|who\b|interview|rezept)", 0.8),
    (r"\b(?:continue|go on)\b[^.\n]{0,30}[.!]?\s*$", 0.8),
    (r"故事|小説|短編|生平", 1.0),
)  # fmt: skip


def detect(text: str) -> Workload:
    """Guess what kind of work a prompt is. Takes no longer for a long prompt than for one of some pages."""
    seen = (text if len(text) <= 2 * _LOOKS_AT else f"{text[:_LOOKS_AT]}\n{text[-_LOOKS_AT:]}").lower()
    prose = _weight(_PROSE, seen)
    code, math = _weight(_CODE, seen) - prose, _weight(_MATH, seen) - prose
    if max(code, math) < _ENOUGH:
        return Workload.GENERAL
    return Workload.CODE if code >= math else Workload.MATH


def _weight(signs: tuple[_Sign, ...], text: str) -> float:
    """Of the signs that are there. `text` is in small letters."""
    return sum(weight for pattern, weight in signs if pattern.search(text))
