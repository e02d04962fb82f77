"""The signs by which `workload` guesses. All of them see text in small letters."""

import re
from dataclasses import dataclass


@dataclass(frozen=True)
class Sign:
    """It is there when one of its words or phrases is, or when its pattern matches."""

    weight: float
    words: frozenset[str] = frozenset()
    phrases: tuple[str, ...] = ()
    pattern: re.Pattern[str] | None = None
    needs: frozenset[str] = frozenset()
    """The pattern cannot match a text without any of these words and characters. Empty: it may match any."""

    def is_in(self, text: str, parts: frozenset[str]) -> bool:
        """`parts` are the words and the characters of the text. Looking them up is far cheaper than searching for each."""
        if not self.words.isdisjoint(parts) or any(phrase in text for phrase in self.phrases):
            return True
        if self.pattern is None or (self.needs and self.needs.isdisjoint(parts)):
            return False
        return self.pattern.search(text) is not None


def _words(weight: float, text: str, *phrases: str) -> Sign:
    return Sign(weight, words=frozenset(text.split()), phrases=phrases)


def _looks(weight: float, pattern: str, *, needs: str = "") -> Sign:
    return Sign(weight, pattern=re.compile(pattern, re.MULTILINE), needs=frozenset(needs.split()))


def _any(text: str) -> str:
    return "(?:" + "|".join(text.split()) + ")"


# Of these the name alone says nothing: animals, islands, verbs and letters. They need a word before them.
_SHY_LANGUAGES = "python java rust go ruby swift scala julia lua dart elixir perl r c assembly"
_SHY_LANGUAGE = _any(_SHY_LANGUAGES)
_PIECE = _any(
    "functions? scripts? programs? methods? class(?:es)? quer(?:y|ies) code macro decorators? components? endpoints? algorithms? "
    "parser tokenizer compiler api snippet cache resolver operator workflow queue trie config module commands?"
)
_MAKES = (
    "write writing implement refactor debug optimise optimize create build generate make give need convert port translate complete "
    "finish fix review mock define add want show set explain"
)
_MAKE = _any(_MAKES)

CODE = (
    # What it looks like.
    _looks(1.0, r"^ *```[a-z+#]+ *$", needs="`"),
    _looks(1.0, r"^[^\S\n]*+(?:async )?(?:def|class) \w+[^\n]{0,80}:[^\S\n]*$", needs=":"),
    _looks(1.0, r"\b(?:function|func|fn|fun) \w* ?\([^)\n]{0,80}\)", needs="("),
    _looks(1.0, r"^[^\S\n]*+(?:#include\b|import \w+\s*$|from [\w.]+ import\b|using namespace|package \w+;?$)"),
    _looks(1.0, r"\b(?:public|private|static) (?:static |final |class |void |int |double |string )+\w", needs="public private static"),
    _looks(0.7, r"^[^\S\n]*+(?:const|let|var|int|float|double|auto|string) (?:mut )?\w+(?:: ?\w+)? = ?\S", needs="="),
    _looks(0.6, r"\b(?:const|let|var) \w+ = [\w(]", needs="="),
    _looks(0.7, r"\b(?:for|while) ?\(\w|\bif ?\([^)\n]{1,40}\) ?[{\w]|\bfor \w+(?:, ?\w+)? in [\w.]+\(", needs="("),
    _looks(1.0, r"\bselect\b[^\n]{1,200}\bfrom\b[^\n]{1,200}\b(?:where|join|group by|order by|limit)|\bcreate table\b", needs="select create"),
    _looks(0.6, r"[{;]\s*$[^\n]*\n[^\n]*[};]\s*$", needs="{ ;"),
    _looks(0.6, r"\w\.\w+\([^)\n]{0,60}\)", needs="("),
    _looks(0.5, r"\w\[['\"]\w+['\"]\]|\w\(['\"][^'\"\n]{0,40}['\"]\)", needs="[ ("),
    _words(0.4, "", "=>", "->", "::", "!=", "===", "&&", "||", "+=", "\\d", "(?:", "(?="),
    _looks(0.6, r"`[^`\n]*[(){}=<>$][^`\n]*`", needs="`"),
    _looks(1.0, r"<(?:div|p|span|html|body|script)\b[^>\n]{0,80}>", needs="<"),
    _looks(0.6, r"^(?:from \S+:\S+|copy \S+ \S+|run \w+ \w+|cmd \[\S+)", needs="from copy run cmd"),
    # What goes wrong.
    _looks(1.0, r"[a-z](?:error|exception): ", needs=":"),
    _words(1.0, "nullpointerexception", "traceback (most recent", "segmentation fault", "borrow checker"),
    _looks(0.6, r"\berror: |\berr!|\b\w+\.(?:py|cpp|js|ts|rs|go|java):\d+", needs=": !"),
    # What it is about.
    _words(
        0.8,
        "javascript typescript golang kotlin haskell c++ c# fortran matlab powershell bash bashu awk vba php sql html css pytest pandas "
        "numpy regex regexes regexp react dockerfile makefile kubectl kubernetes terraform graphql jest useeffect tampermonkey nginx "
        "npm flexbox x86",
        "node.js", "json schema", "github actions",
    ),
    _words(
        0.4,
        "decorator decorators docstring docstrings dict dicts tuple tuples async csv json dataframe stdin stdout localhost endpoint "
        "backoff regex flexbox ipv4 pip multiindex",
        "unit test", "linked list", "one-liner", "binary search", "type hint", "pull request", ".tmp", "thread-safe",
    ),
    _words(0.3, "implement refactor debug compile"),
    _words(0.6, "mutex semaphore rebase", "time complexity", "tail recursive", "merge conflict", "stack trace"),
    _looks(0.5, rf"\b(?:in|to|with|using|my|this|mit|en|em|na|на|用|の) (?:einer? |a )?{_SHY_LANGUAGE}\b(?=[^\w+#]|$)", needs=_SHY_LANGUAGES),
    _looks(0.6, rf"\b{_SHY_LANGUAGE}[- ](?:funktion|function|script|program|programm|snippet|code)\b", needs=_SHY_LANGUAGES),
    # What is asked.
    _looks(0.6, rf"\b{_MAKE}\b[^.?!\n]{{0,50}}\b{_PIECE}\b", needs=_MAKES),
    _words(0.2, "", "how do i", "how can i", "how would i", "how should i", "why is", "why does", "which commands"),
    _words(
        0.6,
        "funktion skript programm beispielcode fonction script requête función programa funzione função skrypt функцию функция программу",
        "用python", "pythonで", "代码", "函数", "コード", "関数",
    ),
    _looks(0.6, r"写一个[^\n]{0,20}函数|修复[^\n]{0,10}代码|コードを書", needs="写 修 コ"),
)  # fmt: skip

# Whole, from its first digit, and never tried again as a shorter one: a page of digits must not take longer than one of words.
_NUMBER = r"(?<![\d,.])\d[\d,.]*+"
_DIGITS = "0 1 2 3 4 5 6 7 8 9"
_SOLVES = (
    "solve compute calculate differentiate integrate simplify factor expand prove show find determine evaluate invert convert berechne "
    "löse beweise résous calcule démontre resuelve calcula calcola oblicz реши round"
)
MATH = (
    # What it looks like.
    _words(1.0, "", "\\frac", "\\int", "\\sum", "\\sqrt", "\\lim", "\\begin{p", "\\begin{b", "\\begin{equation", "\\begin{align"),
    _words(0.8, "", "∫", "∑", "√", "∂", "∞", "≤", "≥"),
    _looks(1.0, rf"(?<![\w.]){_NUMBER} ?[a-z](?:\^\d+)? ?[-+] ?[\da-z][^\n.]{{0,30}}= ?-?\d", needs=_DIGITS),
    _looks(0.7, r"\b[a-z] ?\^ ?[\d({]|\b[a-z]²", needs="^ ²"),
    _looks(0.9, r"\b[fg]\([xtn]\) ?=|\bd[yx]/d[xt]\b|\ba_\{?n", needs="( / _"),
    _looks(0.7, rf"(?<![\d:/-]){_NUMBER} ?(?:[*×÷^]|\*\*) ?\(?\d", needs=_DIGITS),
    _looks(0.6, rf"(?<![\d:/.-]){_NUMBER} (?:[-+/*×÷] \(?{_NUMBER} ?)+", needs=_DIGITS),
    _looks(0.7, rf"(?:= ?\?|what(?:'s| is)|calculate|compute|evaluate|сколько будет|wie viel ist) {{0,2}}\(?{_NUMBER} ?[-+*/×÷^]", needs=_DIGITS),
    _looks(1.0, rf"(?:what(?:'s| is)|calculate|find|¿?cuánto es(?: el)?|wie viel sind) {_NUMBER} ?(?:%|percent|prozent) (?:of|de|von)\b", needs=_DIGITS),
    _looks(0.4, r"[a-z\d)] ?= ?\d+\b[^\n]{0,40}\b(?:and|find|what is|,)", needs=_DIGITS),
    _looks(0.6, r"\bif [a-z_\d()+ ]{1,12} ?= ?-?\d", needs=_DIGITS),
    _looks(0.6, r"\)\^\d|\b(?:tan|sin|cos|log|ln|exp) ?\(?[xtn]\b|\[\d, ?\d\]", needs="^ [ tan sin cos log ln exp"),
    # What it is about.
    _words(
        0.6,
        "integral derivative antiderivative eigenvalue eigenvalues eigenvector eigenvectors determinant hypotenuse polynomial "
        "logarithm lagrange gcd lcm induction irrational primes integer integers cyclic converges ableitung dérivée derivata derivada "
        "ecuación équation equação gleichung уравнение",
        "taylor series", "euclidean algorithm", "greatest common divisor", "standard deviation", "prime number", "方程", "积分",
    ),
    _words(0.5, "matrix dice marbles würfeln trójkąta triangle fraction compounded continuous", "prime number"),
    _looks(0.6, r"\b(?:sum|product|difference|average|mean) of (?:the )?(?:first |two |all )?(?:\d|odd|even|integers|numbers)|\bsumme (?:zweier|der)\b", needs="sum product difference average mean summe"),
    _looks(0.5, r"\b(?:area|volume|perimeter|circumference|sides|radius|slope|roots|remainder|variance|mean|median|limit|equation|interest) (?:of|when|does|and|from|,)", needs="area volume perimeter circumference sides radius slope roots remainder variance mean median limit equation interest"),
    # What is asked.
    _looks(0.5, r"^[^\w\n]*+(?:(?:please|now|let|use|can you)\b[^.\n]{0,30} )?(?:solve|compute|calculate|differentiate|integrate|simplify|factor|expand|"
           r"prove|show that|find|determine|evaluate|invert|convert|berechne|löse|beweise|résous|calcule|démontre|resuelve|calcula|calcola|"
           r"oblicz|реши|解|求|round)\b", needs=f"{_SOLVES} 解 求"),
    _looks(0.6, r"\b(?:prove|show) that\b[^\n]{0,80}(?:\d|\bn\b|number|integer|even|odd|prime|irrational|cyclic|infinitely|attains)", needs="prove show"),
    _looks(0.6, r"\b(?:solve|löse|resuelve|résous) [^.\n]{0,30}\b(?:for [a-z]\b|equation|system|gleichung|ecuación|équation|dy/dx)", needs="solve löse resuelve résous"),
    _looks(1.0, r"解方程|次の方程式|求 ?[^\n]{1,20}的积分", needs="解 次 求"),
    _words(0.5, "wahrscheinlichkeit", "how many ways", "how many different", "in how many", "probability that", "probability of"),
    # A story with numbers that ends with a question for one.
    _looks(0.6, rf"{_NUMBER}[^?]{{1,300}}\b(?:how (?:many|much|far|fast|old|long|large)|what (?:is|was|are) (?:the|her|his|its|their)|when do|"
           rf"wie (?:schnell|viele?|lange|weit|groß)|what's the)\b[^?.!]{{2,90}}\?\s*$", needs=_DIGITS),
    _looks(0.25, rf"{_NUMBER} ?(?:km/h|km|kilomet|m\b|metres|meters|cm|litres|liters|euros?|dollars|hours?|minutes|stunden|%|percent|books|sheep|students|apples)"
           rf"|[$€]{_NUMBER}", needs=_DIGITS),
    _words(
        0.5, "altogether remain",
        "times as", "twice as", "a third of", "two thirds", "half of", "average speed", "in total", "are left", "change does",
        "original price", "ratio of", "per day", "each pay", "together?", "have now?",
    ),
)  # fmt: skip

# Who asks for a text of this kind wants a text, whatever it is about.
_TEXT = _any(
    "stor(?:y|ies) tale poem haiku limerick song letters? e-?mail essay dialogue speech eulogy toast obituary novel thriller scene "
    "monologue biography reply message invitation newsletter note play tragedy myth nicknames plot report plan itinerary title "
    "geschichte brief gedicht märchen histoire poème lettre cuento historia poema carta lettera redação сказку рассказ стих wiersz "
    r"blog\ post press\ release cover\ letter job\ description product\ description review\ of film\ script radio\ ad welcome\ note "
    r"summary\ of".replace(r"\ ", "_")
).replace("_", " ")
PROSE = (
    _looks(1.0, r"\b(?:write|tell|draft|compose|make up|invent|give|continue|plan|rewrite|translate|erzähle?|schreibe?|raconte|écris|escribe|"
           rf"scrivi|escreva|напиши|napisz)\b[^.?!\n]{{0,60}}\b{_TEXT}\b"),
    _looks(0.8, r"^[^\w\n]*+(?:continue|go on|summari[sz]e|describe|imagine|recipe|dear\b|chapter \d|once\b|poem|tell me about|who\b|interview|rezept)"),
    _looks(0.8, r"\b(?:continue|go on)\b[^.\n]{0,30}[.!]?\s*$"),
    _words(1.0, "", "故事", "小説", "短編", "生平"),
)  # fmt: skip
