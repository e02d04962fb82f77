"""From the JSON of an answer to increases of counters. Pure.

A counter is one of one pod, whoever scraped it: two scrape configurations, or two replicas of Prometheus behind one address,
give it twice, and it must count once. The query takes what has the same pod and address together; what is left here is one pod
under several addresses, or once with its name and once without.
"""

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from itertools import pairwise, product
from math import isfinite
from typing import Any, NamedTuple

from diffusion_operator.adapters.metrics import ModelKey

from .failures import NoAnswerError, Reason
from .families import Family
from .queries import KEPT_LABELS, POD_LABELS, Asked, Function, Span

# Enums look up a value several times slower, and an answer has hundreds.
_FAMILIES = {one.value: one for one in Family}
_ASKED = {str(one): one for one in map(Asked._make, product(Family, Span, Function))}


class Counter(NamedTuple):
    """One counter of one pod. `le` is the bound of a histogram's bucket, `length` a range of output tokens."""

    family: Family
    pod: str
    arm: str
    revision: str
    le: str
    length: str


class Increase(NamedTuple):
    """By how much a counter rose in a span."""

    counter: Counter
    rise: float


@dataclass(frozen=True, slots=True)
class Answered:
    """The answer to a window's query.

    `is_fresh` says whether any of the revision's series is scraped still. `reset` are the counters whose first and last
    value say nothing; `instances` are the targets they came from.
    """

    increases: Mapping[Span, tuple[Increase, ...]]
    reset: frozenset[tuple[Span, Counter]]
    instances: frozenset[str]
    is_fresh: bool


def answered(result: Sequence[Mapping[str, Any]]) -> Answered:
    """Read the vector that a window's query gives.

    Raises:
        NoAnswerError: a value is not a number, or the series are those of several clusters.
    """
    pods = _Pods(element["metric"] for element in result)
    rises: dict[Span, dict[Counter, float]] = {span: {} for span in Span}
    reset, instances = set(), set()
    is_fresh = False
    for element in result:
        labels = element["metric"]
        value = _number(element["value"][1], labels)
        family, span, function = _ASKED[labels["asked"]]
        if function is Function.NOW:
            is_fresh = True
            continue
        counter = pods.counter(family, labels)
        if counter is None:
            continue
        if function is Function.RISE:
            of_span = rises[span]
            of_span[counter] = max(of_span.get(counter, 0.0), value)
        else:
            reset.add((span, counter))
            instances.add(labels.get("instance", ""))
    return Answered(
        increases={span: tuple(map(Increase, found, found.values())) for span, found in rises.items()},
        reset=frozenset(reset),
        instances=frozenset(instances),
        is_fresh=is_fresh,
    )


def corrected(
    answer: Answered, result: Sequence[Mapping[str, Any]], *, since: Mapping[Span, datetime]
) -> Mapping[Span, tuple[Increase, ...]]:
    """The increases, with those of counters that were reset taken from their raw samples (the matrix `result`).

    Of several series of a counter the one that saw most is taken: their samples are not in one order, since each scraper has
    its own clock, and the smallest disorder would look like a reset.

    Raises:
        NoAnswerError: the samples of a counter are not there, or are no numbers.
    """
    rises: dict[tuple[Span, Counter], float] = defaultdict(float)
    labelled = [(_family(element), element["metric"], element) for element in result]
    pods = _Pods(labels for _, labels, _ in labelled)
    for family, labels, element in labelled:
        counter = pods.counter(family, labels)
        if counter is None:
            continue
        samples = [(float(at), _number(value, labels)) for at, value in element["values"]]
        for span, start in since.items():
            if (span, counter) in answer.reset:
                rise = total_rise([value for at, value in samples if at >= start.timestamp()])
                rises[span, counter] = max(rises[span, counter], rise)
    if without := answer.reset - rises.keys():
        _, counter = min(without)
        raise NoAnswerError(
            Reason.INCOMPLETE,
            f"Prometheus knows that {counter.family} of {counter.pod} was reset, but gives no samples of it",
        )
    return {
        span: tuple(
            Increase(one.counter, rises[span, one.counter]) if (span, one.counter) in answer.reset else one
            for one in found
        )
        for span, found in answer.increases.items()
    }


def total_rise(values: Sequence[float]) -> float:
    """By how much a counter rose, where a fall means that it began anew at 0."""
    return sum(after - before if after >= before else after for before, after in pairwise(values))


class _Pods:
    """Which series are of which pod.

    A pod's name tells it apart for ever, an address may be another pod's an hour later. So the name counts where there is
    one, and a series that has none is left out where another of the same address has one: it is the same pod again.
    """

    def __init__(self, found: Iterable[Mapping[str, str]]) -> None:
        self._named: set[str] = set()
        clusters = set()
        for labels in found:
            clusters.add(labels.get("cluster", ""))
            if _pod_name(labels):
                self._named.add(labels.get("instance", ""))
        if len(clusters) > 1:
            names = ", ".join(sorted(repr(name) for name in clusters))
            raise NoAnswerError(
                Reason.SEVERAL_CLUSTERS,
                f"Prometheus has this model's series with different labels cluster ({names}): give the operator an address "
                "that answers for its own cluster alone",
            )

    def counter(self, family: Family, labels: Mapping[str, str]) -> Counter | None:
        """The counter that a series is of, None for one that tells what another tells too."""
        instance, name = labels.get("instance", ""), _pod_name(labels)
        if not name and instance in self._named:
            return None
        of = labels.get
        return Counter(family, name or instance, of("arm", ""), of("revision", ""), of("le", ""), of("length", ""))


def _pod_name(labels: Mapping[str, str]) -> str:
    for label in POD_LABELS:
        if name := labels.get(label):
            return name
    return ""


def _family(element: Mapping[str, Any]) -> Family:
    return _FAMILIES[element["metric"]["__name__"]]


def _number(text: str, labels: Mapping[str, str]) -> float:
    value = float(text)
    if not isfinite(value):
        shown = ", ".join(f"{name}={labels[name]}" for name in KEPT_LABELS if name in labels)
        name = _ASKED[labels["asked"]].family if "asked" in labels else labels.get("__name__", "a series")
        raise NoAnswerError(
            Reason.NOT_A_NUMBER, f"Prometheus says {text} for {name} ({shown}): no counter has that value"
        )
    return value


def present(result: Sequence[Mapping[str, Any]]) -> Iterator[tuple[Family, str]]:
    """Families that there are any series of, with `anything` or `model`, from the answer to a presence query."""
    for element in result:
        if float(element["value"][1]) > 0:
            yield _FAMILIES[element["metric"]["family"]], element["metric"]["of"]


def models(result: Sequence[Mapping[str, Any]]) -> frozenset[ModelKey]:
    """Models that a vector speaks of. Series without their labels are of something else that has our metric's name."""
    found = ((element["metric"].get("model_namespace"), element["metric"].get("model")) for element in result)
    return frozenset(ModelKey(namespace, name) for namespace, name in found if namespace and name)
