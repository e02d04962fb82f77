"""The text that Prometheus reads, written a piece at a time between other work of the event loop.

With a thousand models in mid-canary it has 350,000 lines. The library's own writer needs five seconds and 180 MB for them, and beside
it, in a thread, streams stood still for most of a second: whoever waits for the interpreter gets it every 5 ms at best.

What is told by several families with the same labels is read at one moment, or a count and the sum that belongs to it could
contradict each other.
"""

from collections.abc import Iterable, Iterator, Sequence

from prometheus_client import generate_latest
from prometheus_client.metrics_core import Metric
from prometheus_client.registry import Collector
from prometheus_client.utils import floatToGoString

from .families import Family

_LINES = 200
"""Written in one go: one or two milliseconds."""
_CHILDREN = 200
"""Of one family, sent in one go."""


class _Only(Collector):
    """For the library's writer."""

    def __init__(self, metrics: Iterable[Metric]) -> None:
        self._metrics = metrics

    def collect(self) -> Iterable[Metric]:
        return self._metrics


def pieces(*, labelled: Iterable[Family], plain: Iterable[Collector]) -> Iterator[bytes]:
    """The text of families with labels and of collectors without. After each piece, also after an empty one, it is time for a pause."""
    yield generate_latest(_Only(metric for each in plain for metric in each.collect()))
    groups: dict[tuple[str, ...], list[Family]] = {}
    for family in labelled:
        groups.setdefault(tuple(family._labelnames), []).append(family)
    for names, families in groups.items():
        yield from _group(names, families)


def _group(names: Sequence[str], families: Sequence[Family]) -> Iterator[bytes]:
    """Families with the same names of labels."""
    # There is no public way to a family's children, and `collect()` of a family is one long piece.
    found: dict[Sequence[str], object] = {}
    for family in families:
        found |= family._metrics
        yield b""
    texts = {family: [generate_latest(_Only(family.describe()))] for family in families}
    lines = 0
    for values in found:
        labels = _Labels(names, values)
        for family, text in texts.items():
            child = family._metrics.get(values)
            if child is not None:
                samples = [sample for metric in child.collect() for sample in metric.samples]
                written = [labels.line(sample.name, sample.labels, sample.value) for sample in samples]
                text.append("".join(written).encode())
                lines += len(written)
        if lines >= _LINES:
            lines = 0
            yield b""
    for family in families:
        text = texts.pop(family)
        for start in range(0, len(text), _CHILDREN):
            yield b"".join(text[start : start + _CHILDREN])


class _Labels:
    """Labels of one child in each of the families, escaped once for all of their lines."""

    def __init__(self, names: Sequence[str], values: Sequence[str]) -> None:
        pairs = sorted(zip(names, values, strict=True))
        self._all = "{" + ",".join(_pair(*pair) for pair in pairs) + "}"
        self._before_le = "{" + "".join(_pair(*pair) + "," for pair in pairs if pair[0] < "le")
        self._after_le = "".join("," + _pair(*pair) for pair in pairs if pair[0] > "le") + "}"

    def line(self, name: str, own: dict[str, str], value: float) -> str:
        """One line; `own` is what a child's sample has beside its labels: the bound of a bucket, or nothing."""
        number: str = floatToGoString(value)  # type: ignore[no-untyped-call]
        if "le" in own:
            return f'{name}{self._before_le}le="{own["le"]}"{self._after_le} {number}\n'
        return f"{name}{self._all} {number}\n"


def _pair(name: str, value: str) -> str:
    escaped = value.replace("\\", r"\\").replace("\n", r"\n").replace('"', r"\"")
    return f'{name}="{escaped}"'
