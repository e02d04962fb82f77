"""PromQL from windows. Pure.

All of a window is asked for at once, so that it is one look at one moment. A counter's rise is the difference between its
last and its first sample, whoever scraped them: `increase()` extrapolates each series to the ends of the range on its own terms, after
which a count, a sum and a sum of squares contradict each other. `resets()` finds the few series (a gateway's container
ended and came back) of which the difference says nothing; the raw samples of those alone are asked for in a second query.

Queries end at the moment of the look: a scrape is stored as a whole, so the newest one that is there is complete, and one
that comes in late is in the next look. Nothing is gained by looking at the past.
"""

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum
from typing import NamedTuple

from diffusion_operator.adapters.metrics import ModelKey
from diffusion_operator.core.rollout import Window

from .families import OF_A_PAIR, OF_BOTH_ARMS, SPEED, Family

# Labels that tell one counter of one pod from another; all else a scrape adds (job, endpoint, replica of Prometheus) only
# tells who scraped it. How a pod is called differs between setups, and `instance` is always there.
POD_LABELS = ("pod", "kubernetes_pod_name", "pod_name")
KEPT_LABELS = ("cluster", "instance", *POD_LABELS, "arm", "revision", "le", "length")
_BY = ", ".join(KEPT_LABELS)

SUSPICIOUS_SHARE = 0.01
_SUSPICIOUS_RANGE = "2m"
# As long as Prometheus itself takes a sample for the present value. One failed scrape alone is not the end of a series.
_FRESH_RANGE = "5m"


class Span(StrEnum):
    """The two times of a window."""

    STEP = "step"
    GUARD = "guard"


class Function(StrEnum):
    """What is asked of a counter over a span. `NOW` is its newest sample, when there is one of the last five minutes."""

    RISE = "rise"
    RESETS = "resets"
    NOW = "now"


_PROMQL = {
    Function.RISE: "max by ({by}) (max_over_time({series}[{range}])) - min by ({by}) (min_over_time({series}[{range}]))",
    Function.RESETS: "max by ({by}) (resets({series}[{range}])) > 0",
}


class Asked(NamedTuple):
    """What an element of a window's answer tells of. Its text is the label `asked` of the element."""

    family: Family
    span: Span
    function: Function

    def __str__(self) -> str:
        return f"{self.span} {self.function} {self.family}"


@dataclass(frozen=True, slots=True)
class Subject:
    """Whose metrics: a model's revision, and the AR revision beside it, None where there is none of ours."""

    model: ModelKey
    revision: str
    ar: str | None


def window_query(subject: Subject, window: Window, *, families: Sequence[Family], now: datetime) -> str:
    """Everything of a window; `families` are those of the step, the guard has its own. A label `asked` is added."""
    parts = [
        _labelled(
            _PROMQL[function].format(by=_BY, series=selector(subject, family), range=span_range(window, span, now)),
            Asked(family, span, function),
        )
        for span in Span
        for family in (families if span is Span.STEP else [one for one in SPEED if one in families])
        for function in _PROMQL
    ]
    newest = f"max by ({_BY}) (last_over_time({selector(subject, Family.REQUESTS)}[{_FRESH_RANGE}]))"
    parts.append(_labelled(newest, Asked(Family.REQUESTS, Span.STEP, Function.NOW)))
    return " or ".join(parts)


def raw_query(
    subject: Subject, window: Window, *, families: Iterable[Family], instances: Iterable[str], now: datetime
) -> str:
    """All samples since the step began of these families, of the targets `instances` alone."""
    names = "|".join(sorted(families))
    revisions = _one_of(one for one in (subject.revision, subject.ar) if one)
    return (
        f'{{__name__=~"{names}", {_of_model(subject.model)}, revision=~"{revisions}", instance=~"{_one_of(instances)}"}}'
        f"[{span_range(window, Span.STEP, now)}]"
    )


def presence_query(model: ModelKey, families: Iterable[Family]) -> str:
    """How many series of each family there are: anywhere, and of this model. Labels `family` and `of` are added."""
    return " or ".join(
        f'label_replace(label_replace(count({family}{chosen}), "family", "{family}", "", ""), "of", "{of}", "", "")'
        for family in families
        for of, chosen in (("anything", ""), ("model", f"{{{_of_model(model)}}}"))
    )


def suspicious_query(*, only: Iterable[str] = (), without: Iterable[str] = ()) -> str:
    """Models of which a diffusion revision fails more than 1 % of its requests in these minutes."""
    chosen = ['kind="diffusion"']
    if names := _one_of(only):
        chosen.append(f'model_namespace=~"{names}"')
    elif names := _one_of(without):
        chosen.append(f'model_namespace!~"{names}"')

    def rate(family: Family) -> str:
        by = "model_namespace, model, revision"
        return f"sum by ({by}) (rate({family}{{{', '.join(chosen)}}}[{_SUSPICIOUS_RANGE}]))"

    shares = f"{rate(Family.FAILED)} / {rate(Family.REQUESTS)} > {SUSPICIOUS_SHARE}"
    return f"max by (model_namespace, model) ({shares})"


def selector(subject: Subject, family: Family) -> str:
    """The series of a family that count for a subject."""
    revision, ar = _escaped(subject.revision), _escaped(subject.ar or "")
    if family in OF_A_PAIR:
        of = f'revision="{revision}", ar_revision="{ar}"'
    elif family in OF_BOTH_ARMS and subject.ar:
        of = f'revision=~"{_one_of((subject.revision, subject.ar))}"'
    else:
        of = f'revision="{revision}"'
    return f"{family}{{{_of_model(subject.model)}, {of}}}"


def span_range(window: Window, span: Span, now: datetime) -> str:
    """The length of a span up to `now`, as PromQL has it."""
    since = window.since if span is Span.STEP else window.guard_since
    return f"{max(1, round((now - since).total_seconds() * 1000))}ms"


def _labelled(expression: str, asked: Asked) -> str:
    return f'label_replace({expression}, "asked", "{asked}", "", "")'


def _of_model(model: ModelKey) -> str:
    return f'model_namespace="{_escaped(model.namespace)}", model="{_escaped(model.name)}"'


def _escaped(text: str) -> str:
    """For between PromQL's double quotes."""
    return text.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")


def _one_of(texts: Iterable[str]) -> str:
    """A regular expression that matches each of the texts and nothing else, for between quotes."""
    return _escaped("|".join(re.escape(text) for text in sorted(texts)))
